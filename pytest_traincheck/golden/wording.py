"""Preconditions and provenance in words, for everything that shows rules to a person."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from pytest_traincheck.golden.model import Clause, Condition, Except, Exists, Golden
from pytest_traincheck.printable import UNPRINTABLE

ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
"""What a program writes to colour its output or to move the cursor."""


def one_line(text: str) -> str:
    """`text` on one line, without characters that do not print."""
    if text.isascii() and text.isprintable():
        return " ".join(text.split())
    kept = (" " if character.isspace() else character for character in ESCAPE_SEQUENCE.sub("", text))
    visible = "".join(character for character in kept if unicodedata.category(character) not in UNPRINTABLE)
    return " ".join(visible.split())


def conditions(when: Sequence[Condition]) -> str:
    """A precondition in words: "stage is train or eval, and autocast is not bfloat16"; "always" for none."""
    if not when:
        return "always"
    return ", and ".join(one_line(_condition(condition)) for condition in when)


def _condition(condition: Condition) -> str:
    if isinstance(condition, Except):
        return f"not ({' and '.join(_condition(part) for part in condition.parts)})"
    if isinstance(condition, Exists):
        return f"there is {'no' if condition.negated else 'a'} {condition.field}"
    verb = "is not" if condition.negated else "is"
    if isinstance(condition, Clause):
        return f"{condition.field} {verb} {' or '.join(condition.values)}"
    return f"{condition.field} {verb} the {condition.other}"


def plural(count: int, noun: str) -> str:
    """ "1 rule", "2 rules"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def provenance(golden: Golden) -> list[tuple[str, str]]:
    """Where a golden comes from, as label and text; facts that are not known are left out."""
    seeds = ", ".join(map(str, golden.seeds))
    facts = [
        ("learned from", plural(golden.runs, "run") + (f" (seeds {seeds})" if seeds else "")),
        ("commit", golden.commit),
        ("spec", golden.spec),
        ("environment", ", ".join(f"{key} {golden.environment[key]}" for key in sorted(golden.environment))),
        ("models", ", ".join(f"{root} ({plural(len(shapes), 'variable')})" for root, shapes in golden.models.items())),
        ("optimizers", ", ".join(golden.optimizers)),
        ("plug-ins", ", ".join(golden.extensions)),
        ("reason", golden.reason),
    ]
    return [(label, one_line(text)) for label, text in facts if text]
