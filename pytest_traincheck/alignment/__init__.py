"""The candidate's run under the golden's names: which of its models, parts, attributes and optimizers are golden's."""

from pytest_traincheck.alignment.align import Aligned, align, place

__all__ = ["Aligned", "align", "place"]
