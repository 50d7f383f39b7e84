"""Packs are learned: laws that no program breaks, habits that nearly all keep, each tried on what had no part in it."""

from __future__ import annotations

import pytest
from training_story import BACKWARD, Loop, Recorder

from pytest_traincheck.infer import Terms, learn_pack
from pytest_traincheck.infer.certainty import at_most
from pytest_traincheck.packs.errors import PackError
from pytest_traincheck.packs.model import Level, Pack, PackRule
from pytest_traincheck.relations import laws, relations
from pytest_traincheck.rules.model import Scope
from pytest_traincheck.trace import Run

FIRST = Loop(name="Mlp")
SECOND = Loop(name="Wide", parameters={"fc1.weight": (9, 3), "fc1.bias": (9,)}, lr=0.3)
THIRD = Loop(name="Slow", optimizer="torch.optim.SGD", clip=None)
LEFT_OVER = "gradients-left-over"
TERMS = Terms(unreasoned=3)
ONCE = f"`{BACKWARD}` is called exactly once in every training step."


def programs(recorder: Recorder, *loops: Loop) -> dict[str, list[Run]]:
    return {
        f"{number}-{loop.name}": [recorder.record(loop.but(seed=seed)) for seed in (0, 1)]
        for number, loop in enumerate(loops)
    }


def pack(recorder: Recorder, *loops: Loop, terms: Terms = TERMS) -> Pack:
    return learn_pack(programs(recorder, *loops), name="pack", terms=terms, reason="why not")


def rule(found: Pack, name: str) -> PackRule | None:
    return next((item for item in found.rules if name in (item.id, item.invariant.sentence)), None)


def test_a_law_has_its_reason_and_its_evidence(recorder: Recorder) -> None:
    found = pack(recorder, FIRST, SECOND, THIRD)
    law = rule(found, LEFT_OVER)
    assert law is not None
    assert law.level is Level.LAW
    assert law.why
    assert law.remedy
    assert law.evidence.shows == ("0-Mlp", "1-Wide", "2-Slow")
    assert not law.evidence.breaks
    assert (law.evidence.tried, law.evidence.failed) == (3, 0)
    assert 0.6 < law.evidence.at_most < 0.65
    assert (found.programs, found.runs, found.reason) == (("0-Mlp", "1-Wide", "2-Slow"), 6, "why not")


def test_rules_without_a_reason_speak_of_no_program(recorder: Recorder) -> None:
    found = pack(recorder, FIRST, SECOND, THIRD)
    unreasoned = [item for item in found.rules if not item.why]
    assert {item.invariant.relation for item in unreasoned} <= set(relations())
    assert rule(found, ONCE) is not None
    assert {item.invariant.scope for item in found.rules} == {Scope.TRANSFERABLE}
    assert not [
        item for item in found.rules if any(name in item.invariant.sentence for name in ("Mlp", "Wide", "Slow"))
    ]


def test_laws_only(recorder: Recorder) -> None:
    found = pack(recorder, FIRST, SECOND, THIRD, terms=Terms(laws_only=True))
    assert found.rules
    assert {item.invariant.relation for item in found.rules} <= set(laws())
    other = pack(recorder, FIRST, SECOND, THIRD, terms=Terms("transformers", laws_only=True))
    assert not {item.id for item in other.rules} & {item.id for item in found.rules}


def test_a_program_that_breaks_it_makes_a_habit_of_a_law_where_nine_in_ten_keep_it(recorder: Recorder) -> None:
    right = [FIRST.but(lr=0.01 * number) for number in range(1, 10)]
    wrong = Loop(name="Wrong", zero_grad="never")
    terms = Terms(laws_only=True)
    habit = rule(pack(recorder, *right, wrong, terms=terms), LEFT_OVER)
    assert habit is not None
    assert habit.level is Level.HABIT
    assert habit.evidence.breaks == ("9-Wrong",)
    assert habit.evidence.failed == 1
    assert rule(pack(recorder, *right[:8], wrong, terms=terms), LEFT_OVER) is None


def test_a_program_that_breaks_a_law_by_mistake_has_no_part_in_learning_it(recorder: Recorder) -> None:
    wrong = Loop(name="Wrong", zero_grad="never")
    # Nothing here shows what the other law speaks of, so that no pack says anything of it.
    known = Terms(laws_only=True, mistakes={"3-Wrong": frozenset({LEFT_OVER, "labels-shifted-twice"})})
    found = pack(recorder, FIRST, SECOND, THIRD, wrong, terms=known)
    law = rule(found, LEFT_OVER)
    assert law is not None
    assert law.level is Level.LAW
    assert law.evidence.shows == ("0-Mlp", "1-Wide", "2-Slow")
    assert found.mistakes == {"3-Wrong": (LEFT_OVER,)}
    assert found.programs[-1] == "3-Wrong"
    assert any("3-Wrong" in item.evidence.shows for item in found.rules), "other laws are learned from it"


@pytest.mark.parametrize(
    ("program", "name", "said"),
    [("9-None", LEFT_OVER, "no program is called so"), ("0-Mlp", "no-such-law", "no law is called so")],
)
def test_mistakes_of_nothing(recorder: Recorder, program: str, name: str, said: str) -> None:
    with pytest.raises(PackError, match=said):
        pack(recorder, FIRST, SECOND, THIRD, terms=Terms(mistakes={program: frozenset({name})}))


def test_without_a_reason_three_programs_are_too_few(recorder: Recorder) -> None:
    found = pack(recorder, FIRST, SECOND, THIRD, terms=Terms())
    assert rule(found, ONCE) is None
    assert rule(found, LEFT_OVER) is not None


def test_what_may_be_meant_is_a_law_only_where_exceptions_are_known_to_be_rare(recorder: Recorder) -> None:
    found = pack(recorder, FIRST, SECOND, THIRD, terms=Terms(laws_only=True))
    assert all(item.level is Level.HABIT for item in found.rules if item.meant)


def test_too_few_programs() -> None:
    with pytest.raises(PackError, match="at least 3 programs, got 2"):
        learn_pack({"a": [], "b": []}, name="pack")


def test_one_without_runs(recorder: Recorder) -> None:
    with pytest.raises(PackError, match="at least 3 programs"):
        learn_pack({**programs(recorder, FIRST, SECOND, THIRD), "none": []}, name="pack")


def test_a_pack_of_programs_that_only_train_is_about_training(recorder: Recorder) -> None:
    found = pack(recorder, *(loop.but(evaluate_after=()) for loop in (FIRST, SECOND, THIRD)))
    linear = [item for item in found.rules if "linear` returns float32" in item.invariant.sentence]
    assert [item.invariant.sentence for item in linear] == [
        "`torch.nn.functional.linear` returns float32, in training."
    ]


def test_the_bound_is_the_rule_of_three_where_nothing_failed() -> None:
    assert at_most(0, 0) == 1
    assert at_most(0, 60) == pytest.approx(3 / 60, rel=0.03)
    assert at_most(1, 20) == pytest.approx(0.2161, abs=1e-3)
    assert at_most(3, 3) == 1
