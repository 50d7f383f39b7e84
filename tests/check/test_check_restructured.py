"""Checking a program whose models were put into others, taken out of them, or had their parts renamed: real training,
observed in this process.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, violations

from pytest_traincheck.alignment.align import align
from pytest_traincheck.alignment.description import describe_models
from pytest_traincheck.check.evaluate import CheckOutcome, check_run
from pytest_traincheck.check.result import Verdict
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.infer import learn
from pytest_traincheck.probe import observe
from pytest_traincheck.trace import Run, load_run

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


class Student(nn.Module):
    def __init__(self, hidden: str = "hidden", width: int = 6) -> None:
        super().__init__()
        self.first = hidden
        setattr(self, hidden, nn.Linear(5, width))
        self.norm = nn.BatchNorm1d(width)
        self.out = nn.Linear(width, 3)

    def forward(self, x: Any) -> Any:
        return self.out(F.dropout(self.norm(getattr(self, self.first)(x)), 0.2, self.training))


class Teacher(Student):
    def __init__(self) -> None:
        super().__init__(width=9)


class Distiller(nn.Module):
    """Both networks in one module, and perhaps something of its own."""

    def __init__(self, student: Any, teacher: Any, own: bool = False) -> None:
        super().__init__()
        self.teacher, self.student = teacher, student
        if own:
            self.temperature = nn.Parameter(torch.ones(1))

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            target = self.teacher(x)
        return self.student(x), target


@dataclass(frozen=True)
class Distillation:
    """Distillation from a frozen teacher; every field but the bugs is a way to write the same training."""

    seed: int = 0
    together: str = ""
    """Both networks in a `Distiller` that is `called`, or that only holds them (`held`); else each by itself."""
    made: str = "first"
    """The `Distiller` is made `first`, after the `optimizer`, or in the `middle` of the training."""
    own: bool = False
    hidden: str = "hidden"
    teacher_trains: bool = False
    """A bug: the teacher is in train mode while it teaches."""
    forgotten: bool = False
    """A bug: the optimizer does not get the last layer."""
    cleared: bool = True

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        student, teacher = Student(self.hidden), Teacher()
        teacher.requires_grad_(False)
        both: Any = None
        if self.together and self.made == "first":
            both = Distiller(student, teacher, self.own)
        held = [value for name, value in student.named_parameters() if not (self.forgotten and name.startswith("out"))]
        optimizer = torch.optim.AdamW(held, lr=0.01)
        for step in range(5):
            if self.together and both is None and (self.made == "optimizer" or step == 2):
                both = Distiller(student, teacher, self.own)
            student.train()
            teacher.train(self.teacher_trains)
            x, y = torch.randn(8, 5), torch.randint(3, (8,))
            if both is not None and self.together == "called":
                logits, target = both(x)
            else:
                with torch.no_grad():
                    target = teacher(x)
                logits = student(x)
            loss = F.cross_entropy(logits, y) + F.mse_loss(logits, target)
            if self.cleared:
                optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            student.eval()
            with torch.no_grad():
                F.cross_entropy(student(x), y)


class Traces:
    """Runs of programs and what is learned from them, each made once."""

    def __init__(self, directory: Callable[[str], Path]) -> None:
        self._directory = directory
        self._runs: dict[Any, Run] = {}
        self._goldens: dict[Any, Golden] = {}

    def __call__(self, program: Any) -> Run:
        if program not in self._runs:
            path = self._directory("run")
            with observe(path):
                program()
            self._runs[program] = load_run(path)
        return self._runs[program]

    def golden(self, program: Any) -> Golden:
        if program not in self._goldens:
            runs = [self(replace(program, seed=seed)) for seed in range(3)]
            self._goldens[program] = learn(runs, pipeline="story")
        return self._goldens[program]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Traces:
    return Traces(tmp_path_factory.mktemp)


@pytest.fixture
def check(traces: Traces) -> Callable[[Any, Any], CheckOutcome]:
    return lambda golden, candidate: check_run(
        traces.golden(golden), traces(replace(candidate, seed=7)), same_spec=True
    )


APART = Distillation()
CALLED = Distillation(together="called")
HELD = Distillation(together="held")
WRAPPED = {("Distiller.student", "Student"), ("Distiller.teacher", "Teacher")}


NOT_FOLLOWED = {"Replay", "Ranges", "Averages"}
"""About the inputs of a model and about its copies: neither is looked at where it has become a part of another."""


def assert_quiet(outcome: CheckOutcome) -> None:
    assert not outcome.incidents, describe(outcome.incidents)


@pytest.mark.parametrize("made", ["first", "optimizer", "middle"])
@pytest.mark.parametrize("together", ["called", "held"])
def test_models_put_into_one_are_followed(check: Any, together: str, made: str) -> None:
    outcome = check(APART, Distillation(together=together, made=made))
    assert_quiet(outcome)
    assert {item.verdict for item in outcome.verdicts if item.invariant.relation not in NOT_FOLLOWED} == {Verdict.HELD}
    assert set(outcome.renamed) == WRAPPED


@pytest.mark.parametrize("golden", [CALLED, HELD], ids=["called", "held"])
def test_models_taken_out_of_one_are_followed(check: Any, golden: Distillation) -> None:
    outcome = check(golden, APART)
    assert_quiet(outcome)
    rules = [item for item in outcome.verdicts if item.invariant.relation != "Replay"]
    held = sum(item.verdict is Verdict.HELD for item in rules)
    # Whether a model was called as a whole is not known of the parts.
    assert held > 0.9 * len(rules)
    assert set(outcome.renamed) == {(new, old) for old, new in WRAPPED}


def test_parameters_of_the_wrapper_stay_its_own(check: Any, traces: Any) -> None:
    program = Distillation(together="called", own=True)
    outcome = check(APART, program)
    assert_quiet(outcome)
    assert set(outcome.renamed) == WRAPPED
    models = describe_models(align(traces.golden(APART), traces(program)).run)
    assert models.keys() == {"Student", "Teacher", "Distiller"}
    assert models["Distiller"] == {"temperature": [1]}


@pytest.mark.parametrize("made", ["first", "optimizer", "middle"])
@pytest.mark.parametrize("together", ["called", "held"])
def test_a_mistake_in_what_was_put_together_is_told_with_the_names_of_golden(
    check: Any, together: str, made: str
) -> None:
    forgotten = check(APART, Distillation(together=together, made=made, forgotten=True))
    (incident,) = forgotten.incidents
    assert incident.cause.variables == ("Student.out.weight", "Student.out.bias")
    trains = check(APART, Distillation(together=together, made=made, teacher_trains=True))
    assert "the golden run called `Teacher` in eval mode" in trains.incidents[0].cause.title


def test_a_mistake_in_what_was_taken_apart_is_told_with_the_names_of_golden(check: Any) -> None:
    forgotten = check(CALLED, Distillation(forgotten=True))
    (incident,) = forgotten.incidents
    assert incident.cause.variables == ("Distiller.student.out.weight", "Distiller.student.out.bias")
    uncleared = check(CALLED, Distillation(cleared=False))
    assert violations(uncleared, "Accumulate")


def test_renamed_attributes_are_followed_into_a_wrapper(check: Any) -> None:
    outcome = check(APART, Distillation(hidden="body"))
    assert_quiet(outcome)
    assert outcome.renamed == (("Student.body", "Student.hidden"),)
    deeper = check(CALLED, Distillation(together="called", hidden="body"))
    assert_quiet(deeper)
    assert deeper.renamed == (("Distiller.student.body", "Distiller.student.hidden"),)


def test_where_nothing_is_renamed_the_trace_is_left_as_it_is(traces: Any) -> None:
    run = traces(replace(APART, seed=7))
    aligned = align(traces.golden(APART), run)
    assert aligned.renamed == ()
    assert all(ours.raw is theirs.raw for ours, theirs in zip(aligned.run.processes, run.processes, strict=True))


@dataclass(frozen=True)
class Layers:
    """A chain of layers by their names; `average` keeps a copy of the model, as an average would."""

    seed: int = 0
    names: tuple[str, ...] = ("stem", "body", "head")
    sizes: tuple[int, ...] = (4, 6, 7, 3)
    nested: bool = False
    average: bool = False
    wrapped: str = ""
    """Put into a `Sequential` of its own, `first` or after the `optimizer`."""
    skipped: tuple[str, ...] = field(default=())
    """A bug: the optimizer does not get the layers of these names."""

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        model: Any = nn.Sequential()
        for name, before, after in zip(self.names, self.sizes, self.sizes[1:], strict=False):
            inner = nn.Linear(before, after)
            model.add_module(name, nn.Sequential(inner, nn.ReLU()) if self.nested else inner)
        if self.wrapped == "first":
            model = nn.Sequential(model)
        held = [
            value
            for name, value in model.named_parameters()
            if not any(part in self.skipped for part in name.split("."))
        ]
        optimizer = torch.optim.SGD(held, lr=0.1)
        source = model
        if self.wrapped == "optimizer":
            model = nn.Sequential(model)
        twin = copy.deepcopy(source) if self.average else None
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(8, self.sizes[0])).square().mean().backward()
            optimizer.step()
            if twin is not None:
                with torch.no_grad():
                    for mine, theirs in zip(twin.parameters(), model.parameters(), strict=True):
                        mine.lerp_(theirs, 0.5)


@pytest.mark.parametrize(
    ("golden", "candidate", "renamed"),
    [
        (Layers(), Layers(names=("stem", "trunk", "head")), [("Sequential.trunk", "Sequential.body")]),
        (
            Layers(nested=True),
            Layers(names=("stem", "trunk", "head"), nested=True),
            [("Sequential.trunk", "Sequential.body")],
        ),
        (
            Layers(names=("0", "1", "2")),
            Layers(names=("1", "2", "3")),
            [(f"Sequential.{number + 1}", f"Sequential.{number}") for number in range(3)],
        ),
        (
            Layers(names=("fc1", "fc2"), sizes=(4, 4, 4)),
            Layers(names=("layer1", "layer2"), sizes=(4, 4, 4)),
            [("Sequential.layer1", "Sequential.fc1"), ("Sequential.layer2", "Sequential.fc2")],
        ),
        (Layers(), Layers(wrapped="first"), [("Sequential.0", "Sequential")]),
        (Layers(average=True), Layers(average=True, wrapped="optimizer"),
         [("Sequential#1.0", "Sequential"), ("Sequential#2", "Sequential#1")]),
        (Layers(average=True), Layers(average=True, wrapped="first"),
         [("Sequential#1.0", "Sequential#1"), ("Sequential.0", "Sequential")]),
    ],
    ids=["one", "a container", "other numbers", "alike and numbered", "wrapped in its own class",
         "before its copy was made", "with its copy"],
)  # fmt: skip
def test_one_model_under_other_names(check: Any, golden: Layers, candidate: Layers, renamed: list[Any]) -> None:
    outcome = check(golden, candidate)
    assert_quiet(outcome)
    assert {item.verdict for item in outcome.verdicts if item.invariant.relation not in NOT_FOLLOWED} == {Verdict.HELD}
    assert sorted(outcome.renamed) == sorted(renamed)
    name = golden.names[1]
    wrong = check(golden, replace(candidate, skipped=(candidate.names[1],)))
    assert any(item.startswith(f"Sequential.{name}.") for item in wrong.incidents[0].cause.variables), describe(
        wrong.incidents
    )


def test_where_more_than_one_answer_is_possible_names_stay(check: Any) -> None:
    golden = Layers(names=("a", "b"), sizes=(4, 4, 4))
    assert check(golden, Layers(names=("c", "d"), sizes=(4, 4, 4))).renamed == ()
    three = Layers(names=("a", "b", "c"), sizes=(4, 4, 4, 4))
    assert check(golden, three).renamed == ()


class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        normed = nn.utils.parametrizations.spectral_norm
        self.first, self.last = normed(nn.Linear(4, 6)), normed(nn.Linear(6, 1))

    def forward(self, x: Any) -> Any:
        return self.last(F.leaky_relu(self.first(x), 0.2))


def critic() -> Any:
    """The same, layer by layer: a layer is made when the one before it has its parametrization."""
    layers: list[Any] = []
    for before, after in ((4, 6), (6, 1)):
        layers += [nn.utils.parametrizations.spectral_norm(nn.Linear(before, after)), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


@dataclass(frozen=True)
class Parametrized:
    """Training of a model whose layers were models of their own while they were made, and so were their
    parametrizations.
    """

    seed: int = 0
    layered: bool = False
    forgotten: bool = False
    """A bug: the optimizer does not get the last layer."""

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        model = critic() if self.layered else Critic()
        held = list(model.parameters())
        optimizer = torch.optim.Adam(held[:2] if self.forgotten else held, lr=0.01)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()


def test_what_a_model_was_made_of_belongs_to_the_model(check: Any) -> None:
    """Golden has the parametrizations as models of their own, of the time when they were made."""
    outcome = check(Parametrized(), Parametrized(layered=True))
    assert_quiet(outcome)
    assert set(outcome.renamed) == {("Sequential.0", "Critic.first"), ("Sequential.2", "Critic.last")}
    wrong = check(Parametrized(), Parametrized(layered=True, forgotten=True))
    assert any(name.startswith("Critic.last.") for name in wrong.incidents[0].cause.variables)


@dataclass(frozen=True)
class Dropped:
    """Training of a model with layers that hold nothing, by their names."""

    seed: int = 0
    drop: str = "drop"
    act: str = "act"
    p: float = 0.2
    closure: bool = False
    """The optimizer calls for the loss itself."""

    def __call__(self) -> None:
        torch.manual_seed(self.seed)
        model = nn.Sequential()
        for name, layer in (
            ("fc1", nn.Linear(6, 8)), (self.act, nn.ReLU()), (self.drop, nn.Dropout(self.p)), ("fc2", nn.Linear(8, 2)),
        ):  # fmt: skip
            model.add_module(name, layer)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def evaluate(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        for _ in range(4):
            x = torch.randn(8, 6)
            if self.closure:
                optimizer.step(partial(evaluate, x))
            else:
                evaluate(x)
                optimizer.step()


def test_where_nothing_differs_nothing_comes_behind_what_differs(traces: Traces) -> None:
    golden = traces.golden(Dropped())
    outcome = check_run(golden, traces(Dropped(closure=True)), same_spec=True)
    assert_quiet(outcome)
    assert outcome.coverage is not None
    assert outcome.coverage.made
    assert [reason for reason, _ in outcome.coverage.reasons] == ["are about steps that are made otherwise"]


def test_layers_that_hold_nothing_are_compared_under_other_names(traces: Traces) -> None:
    golden = traces.golden(Dropped())
    outcome = check_run(golden, traces(Dropped(drop="regularise", act="0")), same_spec=True)
    assert_quiet(outcome)
    assert outcome.coverage is not None
    assert (outcome.coverage.share, outcome.coverage.reasons) == (1.0, ())


def test_another_layer_is_no_other_name_of_one_that_is_gone(traces: Traces) -> None:
    """It does something else: whose result is wrong is said of the model around it alone."""
    golden = traces.golden(Dropped())
    outcome = check_run(golden, traces(Dropped(drop="regularise", p=0.5)), same_spec=True)
    assert outcome.coverage is not None
    assert ("have no counterpart", 4) in outcome.coverage.reasons
    assert outcome.incidents
