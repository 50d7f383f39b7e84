"""Rules about structure, where a whole run shows that breaking them changed nothing.

Who holds a parameter, who calls what, how often and in which order are means. Where candidate and golden ran alike and
every trained parameter took golden's values in every step, under golden's learning rates, the same was reached by other
means: a schedule written by hand, an average of one's own, models that were cut otherwise. So too where models returned
in evaluation what golden's did. What none of this can show stays as strict as it was: checkpoints, ranks, and whatever
did nothing in golden's run either.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytest_traincheck.golden.recording import Recording
from pytest_traincheck.relations import meaning_of
from pytest_traincheck.relations.meaning import Evidence
from pytest_traincheck.replay import courses
from pytest_traincheck.rules.model import Invariant
from pytest_traincheck.text import plural
from pytest_traincheck.trace import Run


@dataclass(frozen=True)
class Shown:
    """What a run is known to have in common with golden's, from its first step to its last, bit by bit."""

    evidence: frozenset[Evidence] = frozenset()
    steps: int = 0
    tensors: int = 0
    effective: frozenset[str] = frozenset()
    """APIs that changed some value in golden's run: had they done nothing, nothing would show that they are gone."""


def shown(golden: Recording | None, run: Run) -> Shown:
    """What `run` has in common with the run that was recorded; nothing where any trained tensor or step is missing."""
    wanted, found = golden.courses if golden is not None else (), courses(run)
    if golden is None or golden.seed != run.seed or not wanted or len(wanted) != len(found):
        return Shown()
    pairs = list(zip(wanted, found, strict=True))
    if not all(ours.trains_like(theirs) for ours, theirs in pairs):
        return Shown()
    # Of what never moves nothing shows who holds it and whether its gradient arrives.
    evidence = set() if any(ours.idle for ours in wanted) else {Evidence.TRAINED}
    if all(any(len(rates) > 1 for rates, _ in ours.rates) and not theirs.by_hand for ours, theirs in pairs):
        evidence.add(Evidence.PACED)
    if all(ours.shows_rates for ours in wanted):
        evidence.add(Evidence.RATED)
    if all(ours.copies and ours.copies == theirs.copies for ours, theirs in pairs):
        evidence.add(Evidence.COPIED)
    if all(ours.buffers and ours.buffers == theirs.buffers for ours, theirs in pairs):
        evidence.add(Evidence.COUNTED)
    if all(ours.values and ours.values == theirs.values for ours, theirs in pairs):
        evidence.add(Evidence.SEEN)
    if all(ours.evaluates_like(theirs) for ours, theirs in pairs):
        evidence |= {Evidence.EVALUATED, *({Evidence.USED} if Evidence.COPIED in evidence else ())}
    return Shown(
        frozenset(evidence),
        min(ours.steps for ours in wanted),
        sum(len(ours.trained) for ours in wanted),
        frozenset.intersection(*(frozenset(ours.effective) for ours in wanted)),
    )


def without_effect(invariant: Invariant, golden: Recording | None, run: Run) -> str:
    """Why a broken rule about structure is none, in words; empty where nothing shows it, or it is not about that."""
    meaning = meaning_of(invariant)
    needed = meaning.shown_by
    if needed is Evidence.NONE:
        return ""
    common = run.memo(("shown", id(golden)), lambda: shown(golden, run))
    if needed is Evidence.USED and needed not in common.evidence:
        needed = Evidence.SEEN  # What a model holds at all times says what it is used with.
    if needed not in common.evidence or (meaning.acts and meaning.acts not in common.effective):
        return ""
    return _WORDS[needed].format(tensors=plural(common.tensors, "tensor"), steps=plural(common.steps, "step"))


_WORDS = {
    Evidence.TRAINED: "all {tensors} that are trained took golden's values in all {steps}",
    Evidence.PACED: "all learning rates were golden's in all {steps}, and so were the values of all {tensors}",
    Evidence.RATED: "all {tensors} that are trained took golden's values in all {steps}, under golden's learning rates "
    "wherever they moved",
    Evidence.COPIED: "all copies of parameters took golden's values in all {steps}, as did all {tensors} trained",
    Evidence.SEEN: "all parameters and buffers took golden's values in the whole run, also outside of its {steps}",
    Evidence.EVALUATED: "models returned in evaluation what golden's did, and all {tensors} that are trained took "
    "golden's values in all {steps}",
    Evidence.USED: "all copies of parameters took golden's values in all {steps}, and models returned in evaluation "
    "what golden's did",
    Evidence.COUNTED: "all buffers that move took golden's values in all {steps}, as did all {tensors} trained",
}
