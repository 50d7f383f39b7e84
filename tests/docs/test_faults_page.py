"""`docs/faults.md` says what the tests try, no more and no less."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from faults_page import AREAS, BEGIN, COLLECTED, are_whole, tables, write_page

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "faults.md"


def test_the_page_is_what_the_tests_say(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Another area, text or test than the page has: write it anew with the command in its comment."""
    fresh = tmp_path / "faults.md"
    fresh.write_bytes(PAGE.read_bytes())
    collected = pytestconfig.stash[COLLECTED]
    if are_whole(collected, pytestconfig.args, ROOT / "tests"):
        write_page(fresh, collected)
    else:
        collect_anew(fresh)
    assert PAGE.read_text(encoding="utf-8") == fresh.read_text(encoding="utf-8")


def collect_anew(fresh: Path) -> None:
    """For a session that has some of the tests only; it takes a quarter of a minute."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--write-faults={fresh}", "tests"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_every_promise_is_explained_before_the_tables() -> None:
    promise, _, generated = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    for area in list(AREAS)[:7]:
        assert f"**{area}.**" in promise
    assert generated.count("\n| ") > 150


def test_marks_become_rows(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import pytest
        from faults_page import faults_of, tables

        def pytest_configure(config):
            config.addinivalue_line("markers", "fault: x")
            config.addinivalue_line("markers", "slow: x")

        def pytest_collection_finish(session):
            print(tables(faults_of(session.items)))
        """
    )
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.slow
        @pytest.mark.fault(area="Disk", tried="{id}: a|b", happens="{answer}")
        @pytest.mark.parametrize("answer", ["no", "yes"], ids=["first", "second"])
        def test_full(answer):
            pass
        """
    )
    shown = pytester.runpytest("--collect-only", "-q").outlines
    link = "[`test_full`](../test_it.py) (slow)"
    assert f"| first: a\\|b | no | {link} |" in shown
    assert f"| second: a\\|b | yes | {link} |" in shown


def test_a_mark_that_says_nothing_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        from faults_page import faults_of

        def pytest_configure(config):
            config.addinivalue_line("markers", "fault: x")

        def pytest_collection_finish(session):
            faults_of(session.items)
        """
    )
    pytester.makepyfile("import pytest\n@pytest.mark.fault(area='Weather')\ndef test_it(): pass")
    result = pytester.runpytest("--collect-only", "-q")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_it*`fault` takes area=, tried= and happens=*"])


def test_no_rows_make_no_tables() -> None:
    assert "###" not in tables([])
