"""Code or library: the sentence for every combination of what broke, and the cause of each incident."""

from __future__ import annotations

import pytest

from pytest_traincheck.check.attribution import Cause, Cell, Code, Libraries, attribute, last_cell, regrouped
from pytest_traincheck.check.result import CheckResult, Incident, InvariantVerdict, RunError, Verdict, Violation
from pytest_traincheck.relations.called import Called
from pytest_traincheck.relations.count import PerStep
from pytest_traincheck.rules.model import Invariant, Kind, Scope


def broken(*subjects: str, consequences: str = "") -> CheckResult:
    """A check with an incident about each subject; `consequences` is folded under the first."""
    incidents = []
    for rank, subject in enumerate(subjects, start=1):
        follows = (violation(consequences),) if consequences and rank == 1 else ()
        incidents.append(Incident(f"{subject}-{rank}", rank, violation(subject), follows))
    return CheckResult("tiny", incidents=tuple(incidents))


def violation(subject: str) -> Violation:
    rule = Invariant(
        "Count",
        subject,
        PerStep(Called(subject), "once"),
        (),
        Scope.TRANSFERABLE,
        Kind.BEHAVIOUR,
        f"{subject} is called.",
        8,
        3,
    )
    return Violation(rule, f"{subject} broke", "", "", 1, "train", (0,), 1)


CLEAN = CheckResult("tiny")
FAILED = CheckResult("tiny", errors=(RunError("candidate", "ended with exit status 1"),))
LOSS, CLIP = "torch.nn.functional.cross_entropy", "torch.nn.utils.clip_grad_norm_"


def four(library: CheckResult, code: CheckResult, both: CheckResult) -> list[Cell]:
    return [
        Cell(Code.GOLDEN, Libraries.NEW, library),
        Cell(Code.CANDIDATE, Libraries.OLD, code),
        Cell(Code.CANDIDATE, Libraries.NEW, both),
    ]


@pytest.mark.parametrize(
    ("library", "code", "both", "sentence", "causes"),
    [
        (CLEAN, CLEAN, CLEAN, "Neither the libraries nor the code broke anything.", ()),
        (broken(LOSS), CLEAN, broken(LOSS), "The library alone broke it.", (Cause.LIBRARY,)),
        (CLEAN, broken(CLIP), broken(CLIP), "The code alone broke it.", (Cause.CODE,)),
        (CLEAN, CLEAN, broken(LOSS), "Only both together broke it: each change alone passes.", (Cause.TOGETHER,)),
        (
            broken(LOSS),
            broken(CLIP),
            broken(CLIP, LOSS),
            "The library and the code each broke something.",
            (Cause.CODE, Cause.LIBRARY),
        ),
        (
            broken(LOSS),
            broken(LOSS),
            broken(LOSS),
            "The library and the code each broke it: either change alone fails in the same way.",
            (Cause.EITHER,),
        ),
        (
            broken(LOSS),
            CLEAN,
            broken(LOSS, CLIP),
            "The library alone broke it. One incident more only both together.",
            (Cause.LIBRARY, Cause.TOGETHER),
        ),
        (
            FAILED,
            CLEAN,
            FAILED,
            "The library alone broke it: the golden code does not run to its end with the new libraries.",
            (),
        ),
        (
            broken(LOSS),
            CLEAN,
            CLEAN,
            "The new libraries break the golden code, and the candidate code is ready for them: together they pass.",
            (),
        ),
        (
            CLEAN,
            FAILED,
            CLEAN,
            "The candidate code fails with the old libraries and passes with the new ones: merge both together.",
            (),
        ),
    ],
)
def test_two_codes_and_two_libraries(
    library: CheckResult, code: CheckResult, both: CheckResult, sentence: str, causes: tuple[Cause, ...]
) -> None:
    found = attribute(four(library, code, both))
    assert (found.sentence, found.causes) == (sentence, causes)


def test_what_is_accepted_is_not_called_nothing() -> None:
    verdicts = (InvariantVerdict(violation(LOSS).invariant, Verdict.ACCEPTED),)
    accepted = CheckResult("tiny", verdicts)
    alone = attribute([Cell(Code.GOLDEN, Libraries.NEW, accepted)])
    assert alone.sentence == "What the new libraries broke is accepted."
    assert attribute(four(accepted, CLEAN, accepted)).sentence == "What the libraries and the code broke is accepted."
    assert attribute(four(accepted, broken(CLIP), broken(CLIP))).sentence == "The code alone broke it."


def test_a_consequence_in_one_cell_is_a_root_in_another() -> None:
    """With the code's own mistake in front of it, what the library broke is folded under another root."""
    cells = four(broken(CLIP, consequences=LOSS), CLEAN, broken(LOSS))
    assert attribute(cells).causes == (Cause.LIBRARY,)


GRADIENT = "torch.autograd.backward"


def told(result: CheckResult) -> list[tuple[str, list[str]]]:
    """Root and consequences of each incident, by subject."""
    return [
        (each.cause.invariant.subject, [item.invariant.subject for item in each.consequences])
        for each in result.incidents
    ]


def test_a_consequence_stands_under_the_root_that_alone_brings_it() -> None:
    """Both changes at once: the first root takes what follows from the other."""
    library, both = broken(LOSS, consequences=GRADIENT), broken(CLIP, LOSS, consequences=GRADIENT)
    result = regrouped(four(library, broken(CLIP), both))
    assert told(result) == [(CLIP, []), (LOSS, [GRADIENT])]
    # What both bring stays where it is.
    either = four(library, broken(CLIP, consequences=GRADIENT), both)
    assert regrouped(either) == both


def test_what_the_library_broke_is_no_consequence_of_the_code() -> None:
    cells = four(broken(LOSS), broken(CLIP), broken(CLIP, consequences=LOSS))
    result = regrouped(cells)
    assert told(result) == [(CLIP, []), (LOSS, [])]
    assert [(incident.id, incident.number) for incident in result.incidents] == [(f"{CLIP}-1", 1), (f"{LOSS}-1", 2)]


def test_one_change_alone_is_left_as_it_is() -> None:
    both = broken(CLIP, consequences=LOSS)
    assert regrouped(four(CLEAN, both, both)) == both
    assert regrouped([Cell(Code.GOLDEN, Libraries.NEW, both)]) == both


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (CLEAN, "The new libraries broke nothing."),
        (broken(LOSS), "The library alone broke it."),
        (FAILED, "The library alone broke it: the code does not run to its end with the new libraries."),
    ],
)
def test_where_the_code_is_the_same_there_is_one_cell(result: CheckResult, sentence: str) -> None:
    cells = [Cell(Code.GOLDEN, Libraries.NEW, result)]
    found = attribute(cells)
    assert found.sentence == sentence
    assert found.causes == tuple(Cause.LIBRARY for _ in result.incidents)
    assert last_cell(cells).result is result
