"""The page about plug-ins shows the example package as it is, and names all of the API."""

from __future__ import annotations

import re
import subprocess
import sys

from pages import ROOT, blocks

from pytest_traincheck import api, hookspecs

PAGE = ROOT / "docs" / "extending.md"
TEXT = PAGE.read_text(encoding="utf-8")
EXAMPLE = ROOT / "tests" / "extending" / "example"


def test_the_page_shows_the_example_as_it_is() -> None:
    shown = [block.text for block in blocks(PAGE, "python")]
    package = EXAMPLE / "traincheck_checkpoints"
    assert shown == [
        (package / f"{name}.py").read_text(encoding="utf-8")
        for name in ("__init__", "incidents_csv", "planted", "paperlib_known")
    ]
    (entry_points,) = [block.text for block in blocks(PAGE, "toml")]
    assert entry_points in (EXAMPLE / "pyproject.toml").read_text(encoding="utf-8")


def test_the_page_names_every_hook_and_every_name_of_the_api() -> None:
    for name in vars(hookspecs):
        if name.startswith("pytest_traincheck_"):
            assert f"| `{name}()` |" in TEXT
    promised = TEXT[TEXT.index("## What is promised") :]
    table = [line for line in promised.splitlines() if line.startswith("| ")][2:]
    # What stands behind a semicolon belongs to the file of a mistake, and not to the API.
    named = {name for line in table for name in re.findall(r"`(\w+)`", line.partition(";")[0])}
    assert named == set(api.__all__)
    assert all(hasattr(api, name) for name in api.__all__)


def test_what_is_promised_of_runs_and_processes_is_there() -> None:
    (line,) = re.findall(r"^- Of `Run`: (.*?)(?=^- )", TEXT, re.MULTILINE | re.DOTALL)
    of_run, of_process = line.split("Of `Process`:")
    for kind, text in ((api.Run, of_run), (api.Process, of_process)):
        for name in re.findall(r"`(\w+)`", text):
            assert hasattr(kind, name) or name in kind.__dataclass_fields__, f"{kind.__name__} has no {name}"


def test_the_api_needs_no_torch() -> None:
    code = "import sys, pytest_traincheck.api; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
