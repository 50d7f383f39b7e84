"""The pages in a real browser: what it complains of, asks for, has to scroll, and tells a screen reader."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from page_states import states
from test_pages import STATES

from pytest_traincheck.check.result import CheckResult

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    sys.path.insert(0, str(BENCHMARKS))
    try:
        from chromium import browser, executable
    finally:
        sys.path.remove(str(BENCHMARKS))
    if executable() is None:
        pytest.skip("there is no Chromium")
    with browser() as found:
        yield found


@pytest.fixture(params=STATES)
def page(
    request: pytest.FixtureRequest,
    failed: CheckResult,
    passed: CheckResult,
    errored: CheckResult,
    uncovered: CheckResult,
    tmp_path: Path,
) -> Path:
    path = tmp_path / "page.html"
    path.write_text(states(failed, passed, errored, uncovered)[request.param](), encoding="utf-8")
    return path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [380, 800, 1400])
def test_a_page_is_quiet_and_fits(chromium: Any, page: Path, width: int, dark: bool) -> None:
    visit = chromium.visit(page, width=width, dark=dark)
    assert visit.complaints == []
    assert visit.requests == [page.as_uri()], "nothing is asked for but the page"
    assert visit.overflow <= 0, "nothing is wider than the window"
    assert visit.picture.startswith(b"\x89PNG")


def test_a_screen_reader_finds_its_way(chromium: Any, page: Path) -> None:
    roles = chromium.visit(page).roles()
    kinds = [role for role, _ in roles]
    for landmark in ("banner", "main", "contentinfo"):
        assert kinds.count(landmark) == 1
    assert next(name for role, name in roles if role == "link") == "Skip to the content"
    assert all(name for role, name in roles if role in ("image", "heading", "navigation")), "all have names"
    assert "heading" in kinds


def test_dark_is_another_page(chromium: Any, page: Path) -> None:
    assert chromium.visit(page).picture != chromium.visit(page, dark=True).picture
