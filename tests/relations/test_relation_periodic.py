"""Periodic: when things happen that do not happen in every step."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from judgements import describe, sentences, violations

torch = pytest.importorskip("torch")

from real_training import recorded  # noqa: E402

from pytest_traincheck.check.evaluate import CheckOutcome, check_run  # noqa: E402
from pytest_traincheck.check.result import Verdict  # noqa: E402
from pytest_traincheck.golden.model import Golden  # noqa: E402
from pytest_traincheck.infer import learn  # noqa: E402
from pytest_traincheck.online.follow import Follower  # noqa: E402

LOAD, FORWARD = "`torch.nn.Module.load_state_dict`", "`torch.nn.Module.forward`"
FOLLOWS = [
    "Parameters of `Linear#1`, which no optimizer holds, change after 3, 6 and 9 steps.",
    f"{LOAD} is called after 3, 6 and 9 steps of a run.",
]


def follow(target: Any, net: Any) -> None:
    target.load_state_dict(net.state_dict())


def follow_by_hand(target: Any, net: Any) -> None:
    with torch.no_grad():
        for mine, other in zip(target.parameters(), net.parameters(), strict=True):
            mine.copy_(other)


def bootstrapped(
    seed: int = 0,
    steps: int = 10,
    every: int = 3,
    copies: Callable[[Any, Any], None] = follow,
    evaluated: Sequence[int] = (),
    kept: Sequence[int] = (),
) -> None:
    """A value network that learns from a copy of itself, which follows now and then; the best weights may be kept."""
    torch.manual_seed(seed)
    net = torch.nn.Linear(3, 1)
    target, best = copy.deepcopy(net), torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(1, steps + 1):
        states = torch.randn(8, 3)
        with torch.no_grad():
            wanted = 1 + 0.9 * target(states)
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(net(states), wanted).backward()
        optimizer.step()
        if every and step % every == 0:
            copies(target, net)
        if step in evaluated:
            net.eval()
            with torch.no_grad():
                net(torch.ones(4, 3))
            net.train()
        if step in kept:
            best.load_state_dict(net.state_dict())


def golden(folder: Path, told: Sequence[Callable[..., None]] = (bootstrapped,) * 3) -> Golden:
    runs = [recorded(partial(tell, seed=seed), folder / f"golden{seed}") for seed, tell in enumerate(told)]
    return learn(runs, pipeline="real", seeds=tuple(range(len(told))))


def judged(known: Golden, folder: Path, **changes: Any) -> CheckOutcome:
    return check_run(known, recorded(partial(bootstrapped, **changes), folder / "candidate"), same_spec=True)


def test_a_target_that_follows_too_often(tmp_path: Path) -> None:
    known = golden(tmp_path)
    assert sorted(sentences(known, "Periodic")) == sorted(FOLLOWS)
    outcome = judged(known, tmp_path, every=1)
    (incident,) = outcome.incidents
    assert incident.cause.title == (
        f"{LOAD} was called after 3, 6 and 9 steps of the golden run; in the candidate it is called after 1, 2, 3, 4, "
        "5, 6, 7, ... and 10 steps: more often."
    ), describe(outcome.incidents)
    assert "test_relation_periodic.py" in incident.cause.source


def test_a_target_that_follows_by_hand(tmp_path: Path) -> None:
    by_hand = partial(bootstrapped, copies=follow_by_hand)
    known = golden(tmp_path, (by_hand, by_hand, by_hand))
    assert sentences(known, "Periodic") == FOLLOWS[:1]
    (found,) = violations(judged(known, tmp_path, every=5, copies=follow_by_hand), "Periodic")
    assert found.title == (
        "The parameters of `Linear#1`, which no optimizer holds, changed after 3, 6 and 9 steps of the golden run; in "
        "the candidate they change after 5 steps: they are copied or averaged less often."
    )


@pytest.mark.parametrize("changes", [{"seed": 7}, {"seed": 7, "evaluated": (2, 4)}, {"steps": 6}])
def test_what_is_as_it_should_be(tmp_path: Path, changes: dict[str, Any]) -> None:
    """Another seed, evaluations that golden does not have, and a run of another length, which `Total` tells."""
    assert not violations(judged(golden(tmp_path), tmp_path, **changes), "Periodic")


@pytest.mark.parametrize(("every", "holds"), [(3, True), (4, False)])
def test_what_comes_behind_the_last_step_is_not_asked_of_the_beginning_of_a_longer_run(
    tmp_path: Path, every: int, holds: bool
) -> None:
    known = golden(tmp_path, [partial(bootstrapped, steps=9)] * 3)
    assert sorted(sentences(known, "Periodic")) == [FOLLOWS[0].replace("3, 6 and 9", "3 and 6"), FOLLOWS[1]]
    recorded(partial(bootstrapped, steps=30, every=every), tmp_path / "longer")
    follower = Follower(tmp_path / "longer", known, same_spec=True, other_length=True)
    while not follower.over or follower.behind:
        follower.advance()
    found = [each for each in follower.finish().verdicts if each.invariant.relation == "Periodic"]
    # In a run of another length what comes elsewhere is excused, and that is said.
    assert [(each.verdict, not each.reason) for each in found] == [(Verdict.HELD, holds)] * 2


def test_what_seeds_differ_in_is_no_rule(tmp_path: Path) -> None:
    told = [partial(bootstrapped, every=every) for every in (3, 3, 4)]
    assert not sentences(golden(tmp_path, told), "Periodic")


def test_the_best_weights_are_not_kept_after_each_evaluation(tmp_path: Path) -> None:
    best = partial(bootstrapped, every=0, evaluated=(2, 6, 9), kept=(2, 6, 9))
    known = golden(tmp_path, (best, best, best))
    assert f"{LOAD} is called after 2, 6 and 9 steps of a run, or after some of these." in sentences(known, "Periodic")
    fewer = judged(known, tmp_path, every=0, evaluated=(2, 6, 9), kept=(2,))
    assert not violations(fewer, "Periodic")
    elsewhere = judged(known, tmp_path / "elsewhere", every=0, evaluated=(2, 6, 9), kept=(4,))
    assert [item.step for item in violations(elsewhere, "Periodic")] == [4, 4]


def test_the_data_say_at_which_evaluation_weights_are_restored(tmp_path: Path) -> None:
    """Seeds may agree by chance where it got worse for the first time."""
    late = partial(bootstrapped, every=0, evaluated=(2, 4, 6, 9), kept=(6, 9))
    known = golden(tmp_path, (late, late, late))
    earlier = judged(known, tmp_path, every=0, evaluated=(2, 4, 6, 9), kept=(4, 9), seed=5)
    assert not violations(earlier, "Periodic")
    elsewhere = judged(known, tmp_path / "elsewhere", every=0, evaluated=(2, 4, 6, 9), kept=(6, 8))
    assert {item.step for item in violations(elsewhere, "Periodic")} == {8}


def test_an_evaluation_that_moves(tmp_path: Path) -> None:
    evaluated = partial(bootstrapped, every=0, evaluated=(3, 6))
    known = golden(tmp_path, (evaluated, evaluated, evaluated))
    rule = f"{FORWARD} of `Linear` in evaluation is called after 3 and 6 steps of a run."
    assert rule in sentences(known, "Periodic")
    (found,) = violations(judged(known, tmp_path, every=0, evaluated=(3, 8)), "Periodic")
    assert found.title.endswith("it is called after 3 and 8 steps: at other steps.")


def test_models_are_numbered_as_they_are_made(tmp_path: Path) -> None:
    """A model that takes the memory of one that has gone is the last all the same, in every run."""

    def phases() -> None:
        for _ in range(3):
            held = [torch.nn.Linear(2, 2) for _ in range(20)]
            del held[5:15]
            first, second = torch.nn.Linear(3, 1), torch.nn.Linear(3, 2)
            optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
            for _ in range(2):
                (first(torch.ones(4, 3)).sum() + second(torch.ones(4, 3)).sum()).backward()
                optimizer.step()

    process = recorded(phases, tmp_path).processes[0]
    shapes: dict[int, list[int]] = {}
    for symbol in process.raw.symbols["var"][1:]:
        if symbol["kind"] == "parameter" and symbol["name"] == "weight" and symbol["shape"][1] == 3:
            shapes[symbol["root"]] = symbol["shape"]
    assert [shapes[root][0] for root in sorted(shapes)] == [1, 2] * 3
