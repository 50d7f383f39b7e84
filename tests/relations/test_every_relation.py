"""What every relation owes: broken in a real training it says where it stands and how that deviates, where nothing is
wrong it says nothing, and what it says comes back from wherever it was stored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, violations
from training_story import Measured, Recorder, Training

torch = pytest.importorskip("torch")

from real_training import Real, check, golden_of  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome  # noqa: E402
from pytest_traincheck.check.result import CheckResult, Violation  # noqa: E402
from pytest_traincheck.check.serialise import from_plain, to_plain  # noqa: E402
from pytest_traincheck.golden.decode import decode  # noqa: E402
from pytest_traincheck.golden.encode import encode  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.relations import Deviation, Place, builtin, meaning_of, relations  # noqa: E402
from pytest_traincheck.relations.base import Meaningful  # noqa: E402
from pytest_traincheck.relations.stored import with_claims  # noqa: E402
from pytest_traincheck.rules.claims import Foreign  # noqa: E402
from pytest_traincheck.rules.model import Invariant, Kind, Scope  # noqa: E402

NAMES = [item.name for item in builtin.relations()]
SEEDS = (0, 1, 2, 3)


def without_gradient(net: Any) -> None:
    net.norm.weight.grad = None


def some_state(optimizer: Any, net: Any) -> None:
    """As a checkpoint of another training would have it."""
    for parameter in net.parameters():
        optimizer.state[parameter]["momentum_buffer"] = torch.ones_like(parameter)


def with_a_frozen_bias(net: Any) -> Any:
    net.head.bias.requires_grad_(False)
    return net.parameters()


def all_but_a_bias(net: Any) -> Any:
    return [parameter for name, parameter in net.named_parameters() if name != "head.bias"]


def merged(net: Any) -> None:
    with torch.no_grad():
        net.head.bias.add_(0.1)


def merged_and_taken_out(net: Any) -> None:
    merged(net)
    with torch.no_grad():
        net.head.bias.sub_(0.1)


class Scaled(torch.utils.data.TensorDataset):
    """Scales each example where it is stored."""

    def __getitem__(self, index: Any) -> Any:
        self.tensors[0][index].mul_(0.9)
        return super().__getitem__(index)


@dataclass(frozen=True)
class Break:
    """A mistake in a training, and what the relation says that it is for."""

    place: Place
    deviation: Deviation
    change: dict[str, Any]
    golden: dict[str, Any] = field(default_factory=dict)


TWO_TERMS = {"second_term": lambda logits: logits.square().mean()}

BREAKS: dict[str, Break] = {
    "Accumulate": Break(Place.ACCUMULATION, Deviation.LACKING, {"zero_grad": False}),
    "APIArg": Break(Place.FORWARD, Deviation.DIFFERENT, {"net": {"drop": 0.5}}),
    "APIOutput": Break(Place.DIVERGED, Deviation.NOT_FINITE, {"loss_inputs": lambda logits: logits * float("nan")}),
    "APISequence": Break(Place.PREPARATION, Deviation.MISPLACED, {"clip": "after the step"}),
    "Attributes": Break(Place.CHOICE, Deviation.DIFFERENT, {"net": {"heat": 2.0}}),
    "Averages": Break(Place.AVERAGING, Deviation.DIFFERENT, {"decay": 0.5}),
    "Band": Break(Place.NUMBER, Deviation.DIFFERENT, {"scale": 1e6}),
    "Begins": Break(Place.INITIAL, Deviation.DIFFERENT, {"state": lambda net: type(net)().state_dict()}),
    "Between": Break(Place.KEPT, Deviation.EXTRA, {"after_step": merged}),
    "Bounded": Break(Place.CHOICE, Deviation.DIFFERENT, {"batch_size": 4}),
    "Carried": Break(Place.RESUMED, Deviation.DIFFERENT, {"between": lambda optimizer: optimizer.state.clear()}),
    "Clipped": Break(Place.PREPARATION, Deviation.FEWER, {"clipped": lambda net: net.head.parameters()}),
    "Consistent": Break(Place.FORWARD, Deviation.DIFFERENT, {"net": {"tied": False}}),
    "Count": Break(Place.PREPARATION, Deviation.NEVER, {"clip": "never"}),
    "Covered": Break(Place.HELD, Deviation.DIFFERENT, {"held": lambda net: net.head.parameters()}),
    "DataFlow": Break(Place.LOSS, Deviation.DIFFERENT, {"loss_inputs": lambda logits: logits.softmax(-1)}),
    "Drift": Break(
        Place.COPY,
        Deviation.EXTRA,
        {"after_step": merged},
        {"held": all_but_a_bias, "after_step": merged_and_taken_out},
    ),
    "Distinct": Break(Place.DATA, Deviation.DIFFERENT, {"same_batch": True}),
    "Drawn": Break(
        Place.DRAWS,
        Deviation.FEWER,
        {"noise": lambda inputs: torch.randn(len(inputs), 1)},
        {"noise": torch.randn_like},
    ),
    "EventContain": Break(Place.ARRIVAL, Deviation.DIFFERENT, {"after_backward": without_gradient}),
    "Fixed": Break(
        Place.INITIAL,
        Deviation.DIFFERENT,
        {"net": {"head": lambda *shape: 0.3 * torch.randn(shape)}},
        {"net": {"head": lambda *shape: torch.arange(shape[0] * shape[1]).sin().view(shape) / 3}},
    ),
    "Hyperparameter": Break(Place.CHOICE, Deviation.DIFFERENT, {"momentum": 0.5}),
    "Initialised": Break(Place.INITIAL, Deviation.TOO_OFTEN, {"net": {"initialised": 2}}),
    "Loaded": Break(Place.RESUMED, Deviation.LACKING, {"state": lambda net: dict(net.named_parameters())}),
    "LossScale": Break(Place.LOSS, Deviation.DIFFERENT, {"scale": 0.5}),
    "LossTerms": Break(
        Place.LOSS, Deviation.FEWER, {"second_term": lambda logits: logits.detach().square().mean()}, TWO_TERMS
    ),
    "Modes": Break(Place.FORWARD, Deviation.DIFFERENT, {"evaluates_in": "train mode"}),
    "Moves": Break(Place.COPY, Deviation.LACKING, {"average_moves": False}),
    "Ranges": Break(Place.DATA, Deviation.DIFFERENT, {"draw": torch.rand}),
    "Periodic": Break(Place.OTHER, Deviation.TOO_OFTEN, {"follows": 2}, {"follows": 4}),
    "Renewed": Break(Place.DATA, Deviation.DIFFERENT, {"same_batch": True}),
    "Replay": Break(Place.NUMBER, Deviation.DIFFERENT, {"net": {"act": torch.relu}}),
    "Restored": Break(Place.RESUMED, Deviation.DIFFERENT, {"before": some_state}),
    "Saved": Break(Place.RESUMED, Deviation.LACKING, {"saved": lambda net: dict(net.named_parameters())}),
    "Schedule": Break(Place.COURSE, Deviation.DIFFERENT, {"gamma": 0.9}),
    "Shuffled": Break(Place.DATA, Deviation.DIFFERENT, {"shuffle": False}),
    "Total": Break(Place.RUN, Deviation.CUT_SHORT, {"stop_after": 5}),
    "Untouched": Break(Place.DATA, Deviation.EXTRA, {"dataset": Scaled}),
}
MORE: list[tuple[str, Break]] = [
    ("Accumulate", Break(Place.ACCUMULATION, Deviation.TOO_OFTEN, {"skips": (3,)})),
    ("APIArg", Break(Place.FORWARD, Deviation.DIFFERENT, {"evaluates_in": "train mode"})),
    ("Count", Break(Place.BACKWARD, Deviation.TOO_OFTEN, {"skips": (3,)})),
    ("Count", Break(Place.FORWARD, Deviation.NEVER, {"evaluates_in": ""})),
    ("Count", Break(Place.SCHEDULING, Deviation.NEVER, {"schedules": False})),
    ("Covered", Break(Place.HELD, Deviation.DIFFERENT, {"held": with_a_frozen_bias})),
    ("Drawn", Break(Place.DRAWS, Deviation.LACKING, {"noise": torch.zeros_like}, {"noise": torch.randn_like})),
    ("EventContain", Break(Place.ARRIVAL, Deviation.NOT_FINITE, {"loss_inputs": lambda logits: logits * float("nan")})),
    ("Hyperparameter", Break(Place.CLASS, Deviation.DIFFERENT, {"optimizer": torch.optim.RMSprop})),
    ("Moves", Break(Place.STATISTICS, Deviation.EXTRA, {"evaluates_in": "train mode"})),
    ("Replay", Break(Place.NUMBER, Deviation.NOT_FINITE, {"loss_inputs": lambda logits: logits * float("nan")})),
    ("Total", Break(Place.RUN, Deviation.FEWER, {"evaluates_in": ""})),
]
"""Other rules of the same relations, broken otherwise."""


def reducing(least: int) -> Callable[[Training], None]:
    """The first rank exchanges in all steps, the others in the first ones."""

    def tell(t: Training) -> None:
        def reduce(step: int) -> None:
            if t.rank == 0 or step < least:
                ranks = {"tuple": list(range(t.world_size))}
                with t.call("torch.distributed.all_reduce", type="collective", args={"group": ranks}, line=13):
                    pass

        Measured(backward=reduce).tell(t)

    return tell


def placing(dimension: int) -> Callable[[Training], None]:
    """Ranks hold parts of a parameter."""

    def tell(t: Training) -> None:
        model = t.model()
        weight = model.parameters["fc1.weight"].variable
        Measured(
            model=model,
            forward=lambda step: None if step else t.measure(f"parameter.placed=Shard({dimension})", variable=weight),
        ).tell(t)

    return tell


ON_RANKS: dict[str, tuple[Place, Callable[[Training], None], Callable[[Training], None]]] = {
    "CollectiveOrder": (Place.EXCHANGE, reducing(6), reducing(4)),
    "Placed": (Place.INITIAL, placing(0), placing(1)),
}
"""What takes several processes is told as a trace, here and in the tests of its own: right and wrong."""


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Break], Golden]:
    """The golden that a break is checked against; each is learned once."""
    found: dict[str, Golden] = {}

    def learned(wrong: Break) -> Golden:
        key = repr(wrong.golden)
        if key not in found:
            found[key] = golden_of(Real(**wrong.golden), tmp_path_factory.mktemp("golden"), seeds=SEEDS)
        return found[key]

    return learned


@pytest.fixture(scope="module")
def clean(golden: Callable[[Break], Golden], tmp_path_factory: pytest.TempPathFactory) -> CheckOutcome:
    """A golden's own training under a seed that it has not seen."""
    return check(golden(BREAKS["Count"]), Real(seed=9), tmp_path_factory.mktemp("clean"))


def test_every_relation_is_broken_here() -> None:
    assert sorted([*BREAKS, *ON_RANKS]) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_relation_says_what_its_rules_mean(name: str) -> None:
    assert isinstance(relations()[name], Meaningful)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [*BREAKS.items(), *MORE],
    ids=lambda item: item if isinstance(item, str) else f"{item.place.value}, {item.deviation.value}",
)
def test_a_broken_relation_says_where_it_stands_and_how_it_deviates(
    name: str, wrong: Break, golden: Callable[[Break], Golden], tmp_path: Path
) -> None:
    known = golden(wrong)
    outcome = check(known, Real(**{**wrong.golden, **wrong.change}), tmp_path)
    found = violations(outcome, name)
    assert found, describe(outcome.incidents)
    first = found[0]
    assert (meaning_of(first.invariant).place, first.deviation) == (wrong.place, wrong.deviation), found
    assert len(outcome.incidents) == 1, describe(outcome.incidents)
    _comes_back(known, first.invariant, outcome)
    assert all(_is_worded(item) for item in found)


@pytest.mark.parametrize("name", [name for name in BREAKS if not BREAKS[name].golden])
def test_a_relation_has_rules_about_a_right_training_and_nothing_to_say(name: str, clean: CheckOutcome) -> None:
    assert any(item.invariant.relation == name for item in clean.verdicts)
    assert not violations(clean, name)


@pytest.mark.parametrize("name", ON_RANKS)
def test_the_relations_of_several_ranks_say_the_same(name: str, recorder: Recorder) -> None:
    place, right, wrong = ON_RANKS[name]
    known = recorder.learn(right, ranks=2)
    assert not violations(recorder.judge(known, right, ranks=2), name)
    outcome = recorder.judge(known, wrong, ranks=2)
    first = violations(outcome, name)[0]
    assert (meaning_of(first.invariant).place, first.deviation) == (place, Deviation.DIFFERENT)
    _comes_back(known, first.invariant, outcome)


def _comes_back(golden: Golden, rule: Invariant, outcome: CheckOutcome) -> None:
    """The rule from a golden file, with its meaning; the findings from another process."""
    again = with_claims(decode(encode(golden), "golden.jsonl"), "golden.jsonl")
    stored = next(item for item in again.invariants if item.id == rule.id)
    assert (stored, meaning_of(stored)) == (rule, meaning_of(rule))
    result = CheckResult("real", outcome.verdicts, outcome.incidents)
    assert from_plain(to_plain(result)).incidents == outcome.incidents


def _is_worded(found: Violation) -> bool:
    return found.title.endswith(".") and bool(found.golden and found.candidate and found.invariant.sentence)


class Silent:
    """The relation of a plug-in, which says nothing about meaning."""

    name = "Silent"


@pytest.mark.parametrize(("kind", "place"), [(Kind.BEHAVIOUR, Place.OTHER), (Kind.NUMERIC, Place.NUMBER)])
def test_a_relation_that_says_nothing_has_a_usual_meaning(
    kind: Kind, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_traincheck.relations.registry.relations", lambda: {"Silent": Silent()})
    rule = Invariant("Silent", "x", Foreign({"argument": "momentum"}), (), Scope.PINNED, kind, "", 1, 1)
    meaning = meaning_of(rule)
    assert (meaning.place, meaning.words.words, meaning.general) == (place, ("momentum",), False)
