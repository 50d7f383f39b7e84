"""The generated part of `docs/audit.md`: every rule of the packs that ship, with an example and a counter-example.

`python tests/audit_page.py` writes it anew.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from pathlib import Path

from pytest_traincheck.packs import store
from pytest_traincheck.packs.model import PackRule
from pytest_traincheck.relations import laws

PAGE = Path(__file__).resolve().parents[1] / "docs" / "audit.md"
BEGIN = "<!-- What follows is written by `python tests/audit_page.py` from the packs. -->"


def generated() -> str:
    """The part behind the mark."""
    return "\n".join(_packs())


def written() -> str:
    """The page as it should be."""
    return f"{PAGE.read_text(encoding='utf-8').partition(BEGIN)[0]}{BEGIN}\n\n{generated()}"


def _packs() -> Iterator[str]:
    for name in store.shipped():
        pack = store.shipped_pack(name)
        versions = ", ".join(f"{key} {' and '.join(found)}" for key, found in pack.versions.items())
        yield f"## Pack `{name}`\n"
        yield f"Learned from {len(pack.programs)} right programs, with {versions}.\n"
        for rule in pack.rules:
            yield from _rule(rule)


def _rule(rule: PackRule) -> Iterator[str]:
    evidence = rule.evidence
    yield f"### {rule.id}\n"
    yield f"{rule.level.report.capitalize()}. {rule.invariant.sentence}\n"
    link = f" [Documentation]({rule.link})." if rule.link else ""
    yield _paragraph(f"{rule.why}{link}")
    yield _paragraph(rule.remedy)
    if rule.meant:
        yield _paragraph(f"May be meant: {rule.meant}")
    if rule.since:
        yield f"Since version {rule.since}.\n"
    breaking = ", ".join(evidence.breaks)
    broken = f"{len(evidence.breaks)} of them break it ({breaking})" if breaking else "none breaks it"
    yield _paragraph(
        f"Evidence: {len(evidence.shows)} programs with {evidence.examples} places, {broken}; at most "
        f"{100 * evidence.at_most:.0f} % of right programs break it, with 95 % confidence."
    )
    law = laws().get(rule.invariant.relation)
    for label, code in (("Right", getattr(law, "right", "")), ("Wrong", getattr(law, "wrong", ""))):
        if code:
            yield f"{label}:\n\n```python\n{textwrap.dedent(code).strip()}\n```\n"


def _paragraph(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False) + "\n"


if __name__ == "__main__":
    PAGE.write_text(written(), encoding="utf-8")
