"""What of an observation may be left out where nobody needs it: the names that the checker tells the probe by, and that
`meta.json` keeps.

A relation names those that its rules read. Everything else is observed in every run: calls, where they come from, what
they change, and what windows, stages and names are made of.
"""

from __future__ import annotations

from collections.abc import Iterable

VARIABLE = "TRAINCHECK_NOT_NEEDED"
"""The environment variable that takes the names of those which are not needed into a training process."""

Looks = frozenset[str]

ACTIVATIONS = "activations"
"""How large the outputs of modules are in the first steps."""
ATTRIBUTES = "attributes"
"""Plain attributes of modules."""
MASKS_AND_INDICES = "contents of arguments"
"""Hashes and patterns of masks and indices that functions are given."""
DATA_SETS = "data sets"
"""What of a data set was written to."""
FEEDBACK = "feedback"
"""Whether a model is given what it returned the call before."""
GRADIENT_NORMS = "gradient norms"
"""How large gradients are, behind the steps that are measured or followed; whether they are finite is always told."""
INPUT_SCALES = "input scales"
"""How large the inputs of models are."""
LATER = "later steps"
"""What training is given in the steps behind the measured ones."""
LOSSES = "losses"
"""What loss functions are given: targets, and what made their input."""
RENEWAL = "renewal"
"""How much of a model's inputs is as it was one step before."""
SKETCHES = "sketches"
"""What goes into calls and comes out of them in the first steps."""
NUMBER_SORTS = "sorts of numbers"
"""What sort of numbers models and losses are given."""
TERMS = "loss terms"
"""What a loss is made of, by its graph."""
UPDATES = "updates"
"""How far parameters move in the first steps."""

NOTHING: Looks = frozenset()
EVERYTHING: Looks = frozenset(
    {
        ACTIVATIONS,
        ATTRIBUTES,
        MASKS_AND_INDICES,
        DATA_SETS,
        FEEDBACK,
        GRADIENT_NORMS,
        INPUT_SCALES,
        LATER,
        LOSSES,
        RENEWAL,
        SKETCHES,
        NUMBER_SORTS,
        TERMS,
        UPDATES,
    }
)


def to_text(looks: Iterable[str]) -> str:
    """Names as one line."""
    return ",".join(sorted(looks))


def from_text(text: str) -> Looks:
    """What `to_text` wrote. A name that is not known leaves nothing out."""
    return frozenset(text.split(",")) & EVERYTHING
