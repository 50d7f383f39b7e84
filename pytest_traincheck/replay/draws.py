"""Whether two runs drew the same random numbers: in an interval, and before the first step.

Only then may a difference be blamed on the code. What agrees although other numbers were drawn agrees all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pytest_traincheck.golden.recording import ENTRY
from pytest_traincheck.replay.computed import Computed, Move, State

Times = tuple[float, float]
"""A time of golden and one of the candidate."""


def same_draws(golden: Computed, candidate: Computed, after: Times, until: Times, *, fetched: bool = True) -> bool:
    """Whether both drew the same numbers in an interval, or set their generators to the same states before they drew.

    Without `fetched` it does not matter what was drawn for the batches of loaders.
    """
    draws, moved = golden.drawn(after[0], until[0], fetched=fetched)
    others, theirs = candidate.drawn(after[1], until[1], fetched=fetched)
    if moved.keys() != theirs.keys() or not _within(draws, others):
        return False
    return all(_alike(moves, theirs[name]) for name, moves in moved.items())


def seeded_alike(golden: Computed, candidate: Computed, after: Times, until: Times) -> bool:
    """Whether every generator that golden draws from in an interval is first set to a state, and the candidate's to the
    same.
    """
    _, moved = golden.drawn(after[0], until[0], fetched=False)
    _, theirs = candidate.drawn(after[1], until[1], fetched=False)
    return bool(moved) and all(
        not moves[0].words and _from(moves, theirs.get(name, ())) for name, moves in moved.items()
    )


def same_beginning(golden: Computed, candidate: Computed, until: Times) -> bool:
    """Whether the candidate has drawn what golden has before the first step.

    Programs keep what they drew: noise to compare samples by, a projection that is no parameter, targets. So whoever
    drew something else there may compute something else in any step, from batches and parameters that are golden's.
    Numbers that the candidate draws beside do no harm, as long as they cannot be taken for golden's; nor does what was
    drawn before the generators were set once more.
    """
    return all(_drawn_as(golden, candidate, name, until) for name in golden.random)


def _drawn_as(golden: Computed, candidate: Computed, generator: str, until: Times) -> bool:
    """Whether the candidate has drawn from a generator what golden has since it was set for the last time."""
    states = [state for state in golden.random[generator] if state.at <= until[0] and not state.aside]
    others = [state for state in candidate.random.get(generator, []) if state.at <= until[1]]
    begin = max((place for place, state in enumerate(states) if not state.words), default=0)
    if len(states) < 2:
        return True  # nobody drew from it
    for first, state in enumerate(others):
        # A program that sets one seed twice comes to its states twice.
        last = _place(others, states[-1].digest, first) if state.digest == states[begin].digest else None
        if last is not None:
            since = states[-1].at, others[last].at
            if generator not in ("torch", "cuda") or not _drawn_again(golden, candidate, since, until):
                return True
    return False


def first_step(golden: Computed, candidate: Computed, pairs: dict[int, int] | None) -> Times:
    """When the first step began: with its batch, or with the first forward pass."""
    begin = [
        call
        for call in sorted(golden.calls.values(), key=lambda call: call.begin)
        if (call.kind == "data" or call.flags & ENTRY) and call.index in (pairs or {})
    ]
    if not begin or pairs is None:
        return golden.begun, candidate.begun
    return begin[0].begin, candidate.calls[pairs[begin[0].index]].begin


def _alike(moves: Sequence[Move], others: Sequence[Move]) -> bool:
    rest = _from(moves, others)
    ours, theirs = [move.after for move in moves], [move.after for move in rest]
    return bool(rest) and ours[-1] == theirs[-1] and _within(ours, theirs)


def _from(moves: Sequence[Move], others: Sequence[Move]) -> Sequence[Move]:
    """The candidate's moves since it came to the state that golden draws from; none if it never did."""
    for place, move in enumerate(others):
        if moves[0].words and move.before == moves[0].before:
            return others[place:]
        if not moves[0].words and move.after == moves[0].after:
            return others[place:]
    return ()


def _place(states: Sequence[State], digest: int, since: int) -> int | None:
    return next((place for place in range(since, len(states)) if states[place].digest == digest), None)


def _drawn_again(golden: Computed, candidate: Computed, since: Times, until: Times) -> bool:
    """Whether the candidate goes on to draw just what golden draws: then nobody knows which of them golden's is."""
    known = {(name, size) for at, name, size in golden.draws if at <= until[0]}
    ours, theirs = (
        Counter((name, size) for at, name, size in side.draws if begin + _NEXT_TO < at <= end)
        for side, begin, end in zip((golden, candidate), since, until, strict=True)
    )
    return not known.isdisjoint(theirs - ours)


_NEXT_TO = 1.5
"""Times between the state that a draw left and the draw itself."""


def _within(first: Sequence[object], second: Sequence[object]) -> bool:
    """Whether the shorter sequence is the longer one with some places left out: a compiled model draws unseen."""
    short, long = sorted((first, second), key=len)
    rest = iter(long)
    return all(item in rest for item in short)
