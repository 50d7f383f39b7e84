"""The templates that a user copies are valid where they are copied to, and call what there is."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from pytest_traincheck.cli.main import build_parser

ROOT = Path(__file__).resolve().parents[2]
CI = ROOT / "ci"
GITHUB, GITLAB, JENKINS = CI / "github-actions.yml", CI / "gitlab-ci.yml", CI / "Jenkinsfile"
HOOKS = ROOT / ".pre-commit-hooks.yaml"


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize(("path", "schema"), [(GITHUB, "vendor.github-workflows"), (GITLAB, "vendor.gitlab-ci")])
def test_a_template_follows_the_platforms_published_schema(path: Path, schema: str, tmp_path: Path) -> None:
    assert validate(path, schema).returncode == 0, validate(path, schema).stdout
    # The schema is one that says no.
    broken = tmp_path / path.name
    broken.write_text(path.read_text().replace("steps:", "stepz:").replace("script:", "scriptz:"))
    assert validate(broken, schema).returncode == 1


def validate(path: Path, schema: str) -> subprocess.CompletedProcess[str]:
    command = [program("check-jsonschema"), "--builtin-schema", schema, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def program(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    assert found is not None, f"{name} is not installed: pip install -e '.[test]'"
    return found


def github_commands() -> list[str]:
    return [step["run"] for step in load(GITHUB)["jobs"]["traincheck"]["steps"] if "run" in step]


def gitlab_commands() -> list[str]:
    return list(load(GITLAB)["traincheck"]["script"])


def jenkins_blocks() -> list[str]:
    text = JENKINS.read_text()
    return re.findall(r"sh '''(.*?)'''", text, re.DOTALL) + re.findall(r"sh '([^'\n]+)'", text)


def jenkins_commands() -> list[str]:
    lines = [line.strip() for block in jenkins_blocks() for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line]


COMMANDS = {"github": github_commands, "gitlab": gitlab_commands, "jenkins": jenkins_commands}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_template_calls_pytest_with_options_that_exist(name: str) -> None:
    commands = [shlex.split(command) for command in COMMANDS[name]()]
    (words,) = [words for words in commands if words[0] == "pytest"]
    assert "--traincheck" in words
    known = (ROOT / "pytest_traincheck" / "plugin.py").read_text()
    for option in (word for word in words if word.startswith("--traincheck")):
        assert f'"{option}"' in known
    assert words[words.index("--junitxml") + 1] == "traincheck.xml"
    assert any(words[:2] in (["pip", "install"], [".venv/bin/pip", "install"]) for words in commands)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_steps_of_a_template_are_shell(name: str) -> None:
    for step in jenkins_blocks() if name == "jenkins" else COMMANDS[name]():
        done = subprocess.run(["bash", "-n"], input=step, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), step


@pytest.mark.parametrize("path", [GITHUB, GITLAB, JENKINS], ids=lambda path: path.name)
def test_a_template_keeps_reports_and_bundles(path: Path) -> None:
    text = path.read_text()
    for kept in ("traincheck.xml", "traincheck.html", "traincheck-artifacts/*/bundle"):
        assert text.count(kept) >= (1 if kept.endswith("bundle") else 2), f"{path.name} does not keep {kept}"
    assert re.search(r"timeout", text)


def test_github_keeps_what_it_wrote_also_of_a_job_that_failed() -> None:
    workflow = load(GITHUB)
    assert workflow["permissions"] == {"contents": "read"}
    job = workflow["jobs"]["traincheck"]
    upload = next(step for step in job["steps"] if step.get("uses", "").startswith("actions/upload-artifact"))
    assert upload["if"] == "always()"
    cache = next(step for step in job["steps"] if step.get("uses", "").startswith("actions/cache"))
    assert cache["with"]["path"] == "~/.cache/traincheck"
    # What a pull request may call itself never reaches a shell.
    assert not any("${{" in command for command in github_commands())


def test_gitlab_reads_the_junit_report() -> None:
    job = load(GITLAB)["traincheck"]
    assert job["artifacts"]["reports"] == {"junit": "traincheck.xml"}
    assert job["artifacts"]["when"] == "always"
    assert job["variables"]["TRAINCHECK_CACHE_DIR"] == f"$CI_PROJECT_DIR/{job['cache']['paths'][0]}"


def jenkins_code() -> str:
    """The Jenkinsfile without comments and strings."""
    text = re.sub(r"^\s*//.*$", "", JENKINS.read_text(), flags=re.MULTILINE)
    return re.sub(r"'''.*?'''|\"[^\"\n]*\"|'[^'\n]*'", "STRING", text, flags=re.DOTALL)


def test_jenkinsfile_has_the_structure_of_a_declarative_pipeline() -> None:
    """The linter of declarative pipelines is part of a Jenkins server; this is what can be said without one."""
    code = jenkins_code()
    depth, sections = 0, []
    for line in code.splitlines():
        if depth == 1 and (match := re.match(r"\s*(\w+) \{", line)):
            sections.append(match[1])
        depth += line.count("{") - line.count("}")
        assert depth >= 0, line
    assert depth == 0
    assert code.count("(") == code.count(")")
    assert code.strip().startswith("pipeline {")
    # Required: agent and stages. The others are what a declarative pipeline knows.
    assert sections == ["agent", "options", "environment", "stages", "post"]
    text = JENKINS.read_text()
    assert re.findall(r"stage\('([^']+)'\)", text) == ["Install", "Train check"]
    assert len(re.findall(r"\bsteps \{", code)) == 2
    always = text[text.index("always {") :]
    assert "junit 'traincheck.xml'" in always
    assert "archiveArtifacts" in always


def test_the_hook_is_one_that_pre_commit_takes() -> None:
    done = subprocess.run([program("pre-commit"), "validate-manifest", str(HOOKS)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    (hook,) = load(HOOKS)
    build_parser().parse_args([*shlex.split(hook["entry"])[1:], "net"])
    pattern = re.compile(hook["files"])
    assert [name for name in ("train.py", "a/b.yaml", "README.md", "x.pyc") if pattern.search(name)] == [
        "train.py", "a/b.yaml",
    ]  # fmt: skip


def test_the_hook_runs_on_a_commit_and_can_refuse_it(tmp_path: Path) -> None:
    """For real, in a repository whose golden is missing: the check needs no training to say so."""
    (hook,) = load(HOOKS)
    hook["entry"] = f"{sys.executable} -m pytest_traincheck check"
    config = {"repos": [{"repo": "local", "hooks": [{**hook, "args": ["net"]}]}]}
    (tmp_path / ".pre-commit-config.yaml").write_text(json.dumps(config))
    (tmp_path / "traincheck.toml").write_text("[pipelines.net]\nrun = 'python train.py'\n")
    (tmp_path / "train.py").write_text("")
    (tmp_path / "README.md").write_text("")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "PRE_COMMIT"))}
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {
        **kept,
        "PRE_COMMIT_HOME": str(tmp_path.parent / "hooks"),
        "PYTHONPATH": path,
        "GIT_CONFIG_GLOBAL": os.devnull,
    }

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    identity = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
    run("git", "init", "--quiet")
    assert run(program("pre-commit"), "install").returncode == 0
    run("git", "add", "README.md")
    untouched = run("git", *identity, "commit", "-m", "no code")
    assert untouched.returncode == 0, untouched.stderr
    assert "Skipped" in untouched.stdout + untouched.stderr
    run("git", "add", "-A")
    refused = run("git", *identity, "commit", "-m", "code")
    assert refused.returncode == 1
    assert "traincheck refresh net" in refused.stdout + refused.stderr


def test_every_template_is_named_in_the_guide() -> None:
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text()
    for path in (GITHUB, GITLAB, JENKINS):
        assert f"ci/{path.name}" in guide


def test_the_guides_commands_parse() -> None:
    guide = (ROOT / "docs" / "guides" / "ci.md").read_text()
    lines = re.findall(r"^(?:\$ )?traincheck (.*)$", guide, re.MULTILINE)
    assert lines
    for line in lines:
        assert isinstance(build_parser().parse_args(shlex.split(line)), argparse.Namespace)
