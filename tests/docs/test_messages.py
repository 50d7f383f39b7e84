"""Every error that a user can meet stands in docs/messages.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from message_templates import Template, templates

ROOT = Path(__file__).resolve().parents[2]
FOUND = list(templates(ROOT / "pytest_traincheck"))


def _plain(text: str) -> str:
    return " ".join(text.replace("`", " ").split())


@pytest.mark.parametrize("template", FOUND, ids=lambda template: template.place)
def test_message_is_documented(template: Template) -> None:
    page = _plain((ROOT / "docs" / "messages.md").read_text(encoding="utf-8"))
    piece = _plain(template.headline).strip(" .,:;()")
    assert piece in page, f"docs/messages.md lacks the message raised at {template.place}: {piece!r}"


def test_the_source_is_understood() -> None:
    """Guards the reading itself: without it, a parser that finds nothing would pass."""
    headlines = [template.headline for template in FOUND]
    assert any("is not valid TOML" in text for text in headlines)
    assert any("nothing was trained" in text for text in headlines)
    assert any("is not a known key" in text for text in headlines)
    assert len(FOUND) > 50
