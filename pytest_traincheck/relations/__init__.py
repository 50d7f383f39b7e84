"""Relations: the templates of rules. One file each, with hypotheses, examples and wording."""

from pytest_traincheck.relations.base import Examples, Finding, Hypothesis, Relation
from pytest_traincheck.relations.meaning import Deviation
from pytest_traincheck.relations.registry import relations

__all__ = ["Deviation", "Examples", "Finding", "Hypothesis", "Relation", "relations"]
