"""Relations: the templates of rules. One file each, with hypotheses, examples, meaning and wording."""

from pytest_traincheck.relations.base import Examples, Finding, Hypothesis, Relation
from pytest_traincheck.relations.meaning import Change, Deviation, Meaning, Place
from pytest_traincheck.relations.registry import meaning_of, relations

__all__ = [
    "Change",
    "Deviation",
    "Examples",
    "Finding",
    "Hypothesis",
    "Meaning",
    "Place",
    "Relation",
    "meaning_of",
    "relations",
]
