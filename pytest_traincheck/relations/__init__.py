"""Relations: the templates of rules. One file each, with hypotheses, examples and wording."""

from pytest_traincheck.relations.base import Examples, Finding, Hypothesis, Relation
from pytest_traincheck.relations.registry import relations

__all__ = ["Examples", "Finding", "Hypothesis", "Relation", "relations"]
