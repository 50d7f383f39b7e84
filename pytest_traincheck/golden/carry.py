"""What a new golden takes over from the one it replaces, so that only lines whose claim changed change."""

from __future__ import annotations

from dataclasses import replace

from pytest_traincheck.golden.model import Golden


def with_former_support(new: Golden, old: Golden) -> Golden:
    """The new golden in which every rule that the old one had keeps the support that it was first learned with.

    How many examples there are follows from the size of the model and the number of steps: with one layer more every
    line of the file would be another, and a reviewer would not find the one rule that changed.
    """
    former = {rule.id: rule for rule in old.invariants}
    return replace(
        new,
        invariants=tuple(
            replace(rule, examples=former[rule.id].examples, runs=former[rule.id].runs) if rule.id in former else rule
            for rule in new.invariants
        ),
    )
