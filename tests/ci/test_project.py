"""What the project says about itself to platforms, registries and contributors is valid, and names what there is."""

from __future__ import annotations

import ast
import configparser
import datetime
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from trove_classifiers import classifiers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "tests.yml"
RELEASE = ROOT / ".github" / "workflows" / "release.yml"
CONFIG = ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"
FORMS = sorted(path for path in CONFIG.parent.iterdir() if path != CONFIG)
CHANGES = ROOT / "changes"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def steps() -> list[dict[str, Any]]:
    return [step for job in load(WORKFLOW)["jobs"].values() for step in job["steps"]]


SCHEMAS = {
    WORKFLOW: "github-workflows",
    RELEASE: "github-workflows",
    CONFIG: "github-issue-config",
    **dict.fromkeys(FORMS, "github-issue-forms"),
}


@pytest.mark.parametrize("path", SCHEMAS, ids=lambda path: path.stem)
def test_a_file_for_the_platform_follows_its_published_schema(path: Path) -> None:
    program = shutil.which("check-jsonschema", path=str(Path(sys.executable).parent)) or "check-jsonschema"
    command = [program, "--builtin-schema", f"vendor.{SCHEMAS[path]}", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_runs_what_tox_and_the_script_run() -> None:
    commands = [step["run"] for step in steps() if "run" in step]
    known = set(re.findall(r"^\[testenv:(\w+)\]", (ROOT / "tox.ini").read_text(), re.MULTILINE))
    named = {
        name
        for command in commands
        for names in re.findall(r"tox .*?-e ([\w,]+)", command)
        for name in names.split(",")
    }
    assert named == {"lint", "types", "docs", "tests", "pure"} <= known
    assert ".ci/run" in commands
    for command in commands:
        assert subprocess.run(["bash", "-n"], input=command, text=True, check=False).returncode == 0
        # Where packages come from is a matter of the machine; and what a branch may call itself never reaches a shell.
        assert "index" not in command
        assert not re.search(r"\$\{\{(?! matrix\.)", command)


def test_the_workflow_may_read_and_no_more_and_ends() -> None:
    workflow = load(WORKFLOW)
    assert workflow["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] for job in workflow["jobs"].values())


def test_a_release_is_tried_before_it_is_uploaded_and_only_then_trusted() -> None:
    workflow = load(RELEASE)
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] for job in jobs.values())
    assert set(jobs["tried"]["needs"]) == {"sources", "wheels"}
    assert jobs["upload"]["needs"] == "tried"
    assert {name for name, job in jobs.items() if "permissions" in job} == {"upload"}
    assert jobs["upload"]["permissions"] == {"id-token": "write"}
    assert "refs/tags/v" in jobs["upload"]["if"]
    for step in (step for job in jobs.values() for step in job["steps"] if "run" in step):
        assert subprocess.run(["bash", "-n"], input=step["run"], text=True, check=False).returncode == 0
        assert "${{" not in step["run"]


def test_a_release_builds_with_all_tags_and_one_wheel_a_platform() -> None:
    jobs = load(RELEASE)["jobs"]
    for name in ("sources", "wheels"):
        checkout = next(step for step in jobs[name]["steps"] if step.get("uses", "").startswith("actions/checkout"))
        assert checkout["with"]["fetch-depth"] == 0
    (wheels,) = (step for step in jobs["wheels"]["steps"] if "cibuildwheel" in step.get("uses", ""))
    oldest = PROJECT["requires-python"].removeprefix(">=").replace(".", "")
    assert {name.partition("-")[0] for name in wheels["env"]["CIBW_BUILD"].split()} == {f"cp{oldest}"}
    # What the build reads has to reach the container that builds.
    assert wheels["env"]["CIBW_ENVIRONMENT_PASS_LINUX"] in load(RELEASE)["env"]


def test_every_python_that_is_claimed_is_tested() -> None:
    workflow = load(WORKFLOW)
    tested = {
        str(step["with"]["python-version"]) for step in steps() if "with" in step and "python-version" in step["with"]
    }
    tested |= set(workflow["jobs"]["tests"]["strategy"]["matrix"]["python"])
    claimed = set(re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"])))
    assert claimed == {version for version in tested if version.startswith("3.")}
    assert claimed == {f"3.{name[3:]}" for name in re.findall(r"py3\d+", (ROOT / "tox.ini").read_text())}


def test_classifiers_are_known_to_the_registry() -> None:
    assert set(PROJECT["classifiers"]) <= classifiers
    assert PROJECT["classifiers"] == sorted(PROJECT["classifiers"], key=_natural)


def _natural(text: str) -> list[str]:
    """Key of an order in which 3.9 comes before 3.10."""
    return [part.zfill(3) if part.isdigit() else part for part in re.split(r"(\d+)", text)]


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "changes/README.md"])
def test_a_page_for_contributors_names_what_there_is(name: str) -> None:
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?<=`)[\w./-]+(?:\.\w+|/)(?=`)", text)) | set(re.findall(r"\]\(([^)#]+)", text))
    paths = {item for item in named if not re.search(r"NAME|GROUP|SUBJECT|KIND", item)}
    assert paths
    near = (page.parent, ROOT, ROOT / "pytest_traincheck", ROOT / "pytest_traincheck" / "probe")
    missing = {item for item in paths if not any((folder / item).exists() for folder in near)}
    assert not missing - {"conftest.py", "pytest_traincheck.api"}


def test_the_fast_tests_are_named_alike_in_both_places() -> None:
    (command,) = re.findall(
        r"`python (-m pytest -q -m \"not slow\" tests/[^`]*)`", (ROOT / "CONTRIBUTING.md").read_text()
    )
    assert command.replace("tests/relations", "{posargs:tests/relations") + "}" in (ROOT / "tox.ini").read_text()


def imported_at_once(path: Path) -> set[str]:
    """The packages and modules that a file imports when it is imported, before it asks pytest for torch."""
    found: set[str] = set()
    for statement in ast.parse(path.read_text(encoding="utf-8")).body:
        if "importorskip('torch')" in ast.unparse(statement):
            break
        if isinstance(statement, ast.Import):
            found.update(name.name.partition(".")[0] for name in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            found.add((statement.module or "").partition(".")[0])
    return found


def test_the_fast_tests_are_collected_where_there_is_no_torch() -> None:
    folders = re.findall(r"tests/\w+", load_tox()["testenv:fast"]["commands"])
    assert len(folders) == 4
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    tests = {path for path in files if path.name.startswith("test_")}
    helpers = {*files, *(ROOT / "tests").glob("*.py")} - tests
    need_it = {"torch"} | {path.stem for path in helpers if "torch" in imported_at_once(path)}
    assert "real_training" in need_it
    wrong = [path.relative_to(ROOT).as_posix() for path in sorted(tests) if imported_at_once(path) & need_it]
    assert not wrong, 'put `pytest.importorskip("torch")` before what imports it'


def load_tox() -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None)
    found.read(ROOT / "tox.ini", encoding="utf-8")
    return found


def _assemble() -> ModuleType:
    spec = importlib.util.spec_from_file_location("assemble", CHANGES / "assemble.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_fragments_of_release_notes_are_named_and_written_as_their_readme_says() -> None:
    for paths in _assemble().fragments(CHANGES).values():
        for path in paths:
            text = path.read_text(encoding="utf-8")
            assert re.fullmatch(r"[A-Z`].*\.\n", text, re.DOTALL), f"{path.name} is no sentence that ends its line"
            assert not re.search(r"^(#|\s*\n)", text, re.MULTILINE), f"{path.name} has a heading or an empty line"


def test_a_file_that_is_no_fragment_is_named(tmp_path: Path) -> None:
    (tmp_path / "mended.bugfix.md").write_text("Mended.\n")
    with pytest.raises(ValueError, match=r"mended\.bugfix\.md is not named SUBJECT\.KIND\.md"):
        _assemble().fragments(tmp_path)


def test_a_release_moves_fragments_under_its_version(tmp_path: Path) -> None:
    fragment = tmp_path / "two-lines.fixed.md"
    fragment.write_text("First line\nand second.\n")
    assemble = _assemble()
    changelog = "# Changelog\n\n## Unreleased\n\nFirst version.\n\n## 0.1.0 (2026-01-01)\n\n- Old.\n"
    texts = {kind: [] for kind in assemble.KINDS} | {"fixed": [assemble.as_item(fragment)], "added": ["New."]}
    assert assemble.assembled(changelog, texts, "0.2.0", datetime.date(2026, 2, 1)) == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 (2026-02-01)\n\nFirst version.\n\n- New.\n\n- First line\n"
        "  and second.\n\n## 0.1.0 (2026-01-01)\n\n- Old.\n"
    )
