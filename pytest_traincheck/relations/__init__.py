"""Relations: the templates of rules. One file each, with hypotheses, examples, meaning and wording."""

from pytest_traincheck.relations.base import Examples, Finding, Hypothesis, Meaningful, Relation
from pytest_traincheck.relations.meaning import Change, Deviation, Evidence, Excuse, Meaning, Place, Words
from pytest_traincheck.relations.registry import laws, looks_of, meaning_of, relation_named, relations
from pytest_traincheck.relations.settings import Setting, Sort

__all__ = [
    "Change",
    "Deviation",
    "Evidence",
    "Examples",
    "Excuse",
    "Finding",
    "Hypothesis",
    "Meaning",
    "Meaningful",
    "Place",
    "Relation",
    "Setting",
    "Sort",
    "Words",
    "laws",
    "looks_of",
    "meaning_of",
    "relation_named",
    "relations",
]
