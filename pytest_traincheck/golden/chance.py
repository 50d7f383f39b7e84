"""What a golden rests on that may be chance: runs that did not vary, and runs that do not repeat."""

from __future__ import annotations

from pytest_traincheck.golden.model import IN_PROCESS, Golden
from pytest_traincheck.text import plural


def chance(golden: Golden) -> tuple[str, ...]:
    """Why chance may have become law in a golden: nothing that it was learned from varied. One sentence or two each."""
    found = []
    if golden.ignores_seed:
        found.append(
            "All golden runs were the same though their seeds differ: the command ignores its seed, so chance may have "
            "become a rule. Pass the seed on to torch, numpy and random, and refresh the golden."
        )
    if len(golden.seeds) == 1 or golden.runs == 1:
        remedy = "Let the test train under three seeds" if golden.spec.startswith(IN_PROCESS) else "Give three seeds"
        found.append(
            f"The golden was learned from one seed, so chance may have become a rule. {remedy}, and refresh the golden."
        )
    return tuple(found)


def not_repeating(golden: Golden) -> tuple[str, ...]:
    """Why candidates cannot be compared with the numbers of a golden, whose own seed does not give the same twice."""
    if golden.recording is None or not golden.recording.unrepeated:
        return ()
    return (
        f"Two golden runs with the same seed differ: {plural(len(golden.recording.unrepeated), 'comparison')} with "
        "a candidate cannot be expected to take place. Seed torch, numpy and random before anything is drawn.",
    )
