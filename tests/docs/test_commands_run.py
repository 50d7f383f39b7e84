"""Every command that a page shows is run in a repository like the reader's, or the page says why it is only parsed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import scratch_repository
from pages import PAGES, ROOT
from shown import PROGRAMS, Shown, shown

from pytest_traincheck.cli.main import parse

COMMANDS = [command for page in PAGES for command in shown(page) if command.program in PROGRAMS]
RUN = {page: [c for c in COMMANDS if c.page == page and not c.mark] for page in PAGES}
ALWAYS = {ROOT / "docs" / "guides" / "report.md", ROOT / "ci" / "README.md"}
"""Pages with a check by either program. The commands of the others, for which one trains up to forty times, are run by
the sweep, and parsed always."""

READ_ONLY = frozenset({"--help", "--completion", "--version"})


@pytest.fixture(scope="session")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scratch_repository.make(tmp_path_factory.mktemp("documented") / "made")


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[] if page in ALWAYS else pytest.mark.sweep) for page in PAGES if RUN[page]],
    ids=lambda page: page.stem,
)
def test_commands_of_a_page_work(page: Path, repository: Path, tmp_path: Path) -> None:
    """In order, in one repository: what one command writes another may read. Incidents are no failure here."""
    mine = scratch_repository.copy(repository, tmp_path / "mine")
    for command in RUN[page]:
        done = scratch_repository.shell(command.command, mine)
        place = f"{page.relative_to(ROOT)}:{command.line}: {command.command}"
        assert done.returncode in (0, 1), f"{place}\nexit status {done.returncode}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize(
    "command",
    [command for command in COMMANDS if command.program == "traincheck" and command.mark != "not run"],
    ids=lambda command: f"{command.page.stem}-{command.line}",
)
def test_what_is_shown_parses(command: Shown) -> None:
    words = shlex.split(command.command.partition(" > ")[0], comments=True)[1:]
    if READ_ONLY & set(words):
        assert not command.mark, "this is quick enough to be run"
    else:
        parse(words)


def test_each_page_with_commands_is_looked_at() -> None:
    assert {ROOT / "README.md", ROOT / "docs" / "commands.md", ROOT / "docs" / "tutorial.md"} <= {
        command.page for command in COMMANDS
    }
    assert sum(1 for command in COMMANDS if not command.mark) > len(COMMANDS) / 2


def test_a_mark_says_what_is_true_of_the_block_below(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Text\n\n<!-- parsed: takes minutes -->\n```\ntraincheck selftest \\\n    net\n```\n\n"
        "```\n$ traincheck list\noutput\n```\n\n<!-- not run: needs the network -->\n\n```bash\ngit clone x\n```\n"
        "```python\ntraincheck = 3\n```\n",
        encoding="utf-8",
    )
    assert [(c.line, c.command, c.mark) for c in shown(page)] == [
        (5, "traincheck selftest net", "parsed"),
        (10, "traincheck list", ""),
        (17, "git clone x", "not run"),
    ]
