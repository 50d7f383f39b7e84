"""How optimizers are called: by their class and the models whose parameters they hold, as in `AdamW[Encoder+Head]#1`.

What builds such a label stands beside what takes it apart again, so that nobody else knows what it looks like.
"""

from __future__ import annotations

from collections.abc import Iterable

BY_HAND = "ByHand"
"""The class of what stands for updates that a program makes itself, without an optimizer of torch's."""

_OPEN, _CLOSE, _AND, _NUMBER = "[", "]", "+", "#"


def label_of(kind: str, models: Iterable[str], number: int = 0) -> str:
    """The label of an optimizer of class `kind`, without its module; `number` counts those of one class and models."""
    label = f"{kind}{_OPEN}{_AND.join(models)}{_CLOSE}"
    return f"{label}{_NUMBER}{number}" if number else label


def class_in(label: str) -> str:
    """The class that a label names."""
    return label.partition(_OPEN)[0]


def models_in(label: str) -> tuple[str, ...]:
    """The models that a label names; none for an optimizer of parameters that belong to no model."""
    inside = label.partition(_OPEN)[2].rpartition(_CLOSE)[0]
    return tuple(name for name in inside.split(_AND) if name)


def without_class(label: str) -> str:
    """What is the same in the labels of two optimizers of different classes for the same models; empty for a text that
    is no label.
    """
    return label.partition(_OPEN)[2]
