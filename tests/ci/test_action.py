"""The action of GitHub and the component of GitLab follow what their platforms document, and what they run works."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from small_training import TRAIN
from test_templates import validate

from pytest_traincheck.cli.main import parse

ROOT = Path(__file__).resolve().parents[2]
ACTION, COMPONENT, SCRIPT = ROOT / "action.yml", ROOT / "templates" / "traincheck.yml", ROOT / "ci" / "check.sh"

# A Python that says what it was called with.
SAYS = f"""#!{sys.executable}
import json, os, sys
if sys.argv[1] == "-":
    del sys.argv[0]
    exec(sys.stdin.read())
else:
    print(json.dumps(sys.argv[1:]))
    sys.exit(int(os.environ.get("STATUS", "0")))
"""

CONFIGURATION = """\
[pipelines.net]
run = "python train.py --steps 6"
seed_arg = "--seed {seed}"
seeds = [0]
timeout = 120
"""


def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return loaded


def component() -> tuple[dict[str, Any], dict[str, Any]]:
    spec, jobs = yaml.safe_load_all(COMPONENT.read_text(encoding="utf-8"))
    return spec, jobs


def clean(cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """The script with `env -i`: nothing of this environment but a path."""
    given = [f"{name}={value}" for name, value in variables.items()]
    command = ["env", "-i", "PATH=/usr/bin:/bin", *given, str(SCRIPT)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)


@pytest.fixture
def says(tmp_path: Path) -> str:
    program = tmp_path / "says"
    program.write_text(SAYS)
    program.chmod(0o755)
    return str(program)


def test_the_action_follows_the_published_schema(tmp_path: Path) -> None:
    assert validate(ACTION, "vendor.github-actions").returncode == 0, validate(ACTION, "vendor.github-actions").stdout
    broken = tmp_path / "action.yml"
    broken.write_text(ACTION.read_text().replace("using: composite", "using: compost"))
    assert validate(broken, "vendor.github-actions").returncode == 1


def test_every_input_is_used_and_nothing_else() -> None:
    text = json.dumps(action()["runs"])
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action()["inputs"])
    assert set(re.findall(r"steps\.check\.outputs\.(\w+)", ACTION.read_text())) == set(action()["outputs"])
    assert all("description" in item for item in [*action()["inputs"].values(), *action()["outputs"].values()])


def test_what_a_workflow_says_never_becomes_a_part_of_a_script() -> None:
    for step in action()["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert "run" not in step or step["shell"] == "bash"


def test_the_variables_of_the_action_are_those_of_the_script() -> None:
    documented = set(re.findall(r"^#   (TRAINCHECK_\w+)", SCRIPT.read_text(), re.MULTILINE))
    read = set(re.findall(r"\$\{(TRAINCHECK_\w+)", SCRIPT.read_text()))
    assert documented == read
    (step,) = (step for step in action()["runs"]["steps"] if step.get("id") == "check")
    assert set(step["env"]) == documented


def test_nothing_is_needed_but_a_python(tmp_path: Path, says: str) -> None:
    done = clean(tmp_path, TRAINCHECK_PYTHON=says)
    assert done.returncode == 0, done.stderr
    words = json.loads(done.stdout)
    assert words[:2] == ["-m", "pytest_traincheck"]
    arguments = parse(words[2:])
    assert arguments.command == "check"
    assert arguments.names == []
    assert arguments.json == Path("traincheck-reports/traincheck.json")
    assert (tmp_path / "traincheck-reports").is_dir()


def test_all_that_can_be_said_reaches_the_command_as_words(tmp_path: Path, says: str) -> None:
    reports = tmp_path / "reports of $(touch pwned)"
    done = clean(
        tmp_path, TRAINCHECK_PYTHON=says, TRAINCHECK_PIPELINES="net $(touch pwned) *", TRAINCHECK_STRICT="true",
        TRAINCHECK_GOLDEN="merge-base:origin/main", TRAINCHECK_REPORTS=str(reports), TRAINCHECK_HISTORY="h.jsonl",
    )  # fmt: skip
    arguments = parse(json.loads(done.stdout)[2:])
    assert arguments.names == ["net", "$(touch", "pwned)", "*"]
    assert arguments.golden == "merge-base:origin/main"
    assert arguments.strict
    assert arguments.history == Path("h.jsonl")
    assert not (tmp_path / "pwned").exists()


def test_the_status_is_that_of_the_check_and_outputs_are_set(tmp_path: Path, says: str) -> None:
    output = tmp_path / "output"
    done = clean(tmp_path, TRAINCHECK_PYTHON=says, STATUS="3", GITHUB_OUTPUT=str(output))
    assert done.returncode == 3
    # No report was written: an error, and not a pass.
    assert output.read_text().splitlines() == ["verdict=error", "incidents=0", "reports=traincheck-reports"]


@pytest.mark.slow
def test_a_real_check_in_an_empty_environment(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "traincheck.toml").write_text(CONFIGURATION)
    command = [sys.executable, "-m", "pytest_traincheck", "refresh"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=600)
    (tmp_path / "train.py").write_text(TRAIN.replace("optimizer.zero_grad()", "pass"))
    variables = {"HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1", "GITHUB_OUTPUT": str(tmp_path / "output")}
    done = clean(tmp_path, TRAINCHECK_PYTHON=sys.executable, TRAINCHECK_HISTORY="kept/h.jsonl", **variables)
    assert done.returncode == 1, done.stdout + done.stderr
    said = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
    assert said["verdict"] == "fail"
    assert int(said["incidents"]) >= 1
    reports = tmp_path / said["reports"]
    written = {item.name for item in reports.iterdir()}
    assert written == {"traincheck.json", "traincheck.xml", "traincheck.html", "traincheck.sarif", "artifacts"}
    assert (reports / "artifacts" / "net" / "bundle").is_dir()
    assert (tmp_path / "kept" / "h.jsonl").read_text().count("\n") == 1


def test_the_component_has_a_header_and_a_job_of_gitlab(tmp_path: Path) -> None:
    spec, jobs = component()
    text = COMPONENT.read_text()
    assert set(spec) == {"spec"}
    assert set(re.findall(r"\$\[\[ inputs\.(\w+) \]\]", text)) == set(spec["spec"]["inputs"])
    known = {"description", "default", "options", "regex", "type", "rules"}
    assert all(set(item) <= known and "description" in item for item in spec["spec"]["inputs"].values())
    alone = tmp_path / ".gitlab-ci.yml"
    filled = re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda m: spec["spec"]["inputs"][m[1]]["default"], text)
    alone.write_text(filled.partition("\n---\n")[2])
    assert validate(alone, "vendor.gitlab-ci").returncode == 0
    assert list(jobs) == ["traincheck"]


def test_the_command_of_the_component_is_one_of_ours() -> None:
    spec, jobs = component()
    defaults = {name: item["default"] for name, item in spec["spec"]["inputs"].items()}
    line = re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda match: defaults[match[1]], jobs["traincheck"]["script"][1])
    words = shlex.split(line)
    assert words[:3] == ["python", "-m", "pytest_traincheck"]
    arguments = parse(words[3:])
    assert jobs["traincheck"]["artifacts"]["reports"]["junit"] == str(arguments.junit)
    assert str(arguments.html) in jobs["traincheck"]["artifacts"]["paths"]
    assert os.fspath(arguments.artifacts) + "/*/bundle" in jobs["traincheck"]["artifacts"]["paths"]
