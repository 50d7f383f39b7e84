"""What the documentation tells a reader to write or type is what the package takes."""

from __future__ import annotations

import argparse
import configparser
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pages import PAGES, README, ROOT, Block, blocks, broken_links, commands

from pytest_traincheck.audit_config import AuditConfig
from pytest_traincheck.cli.main import build_parser, parse
from pytest_traincheck.config import load
from pytest_traincheck.golden.decode import decode

OPTION = re.compile(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*(?![a-z-])")


def _subcommands() -> dict[str, argparse.ArgumentParser]:
    actions = build_parser()._actions
    return next(dict(item.choices) for item in actions if isinstance(item, argparse._SubParsersAction))


def _all(language: str) -> list[Block]:
    return [block for page in PAGES for block in blocks(page, language)]


def _configurations() -> list[Block]:
    """What configures this package, and not a package that extends it."""
    return [block for block in _all("toml") if "entry-points" not in block.text]


@pytest.mark.parametrize("block", _configurations(), ids=lambda block: block.page.name)
def test_configuration_is_read(block: Block, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(block.text, encoding="utf-8")
    config = load(tmp_path)
    assert config.pipelines or config.audit != AuditConfig()


def test_first_pipeline_takes_five_lines() -> None:
    (block,) = blocks(README, "toml")
    assert len(block.text.splitlines()) == 5


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_parse(page: Path) -> None:
    for line in commands(page, "traincheck"):
        words = shlex.split(line.partition(" > ")[0], comments=True)[1:]
        if "--completion" in words:
            with pytest.raises(SystemExit, match=r"^0$"):
                parse(words)
        else:
            parse(words)


def test_every_command_and_option_is_documented() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for name, parser in _subcommands().items():
        assert re.search(rf"^## .*\b{name}\b", page, re.MULTILINE), f"docs/commands.md has no section on `{name}`"
        for action in parser._actions:
            for option in action.option_strings:
                if option.startswith("--") and option != "--help":
                    assert option in page, f"docs/commands.md does not mention {option} of `traincheck {name}`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_exist(page: Path) -> None:
    parsers = [build_parser(), *_subcommands().values()]
    known = {option for parser in parsers for item in parser._actions for option in item.option_strings}
    known |= set(OPTION.findall((ROOT / "pytest_traincheck" / "plugin.py").read_text(encoding="utf-8")))
    # of pytest, torchrun, pip, and of the pipelines in the examples
    known |= {"--junitxml", "--lf", "--collect-only", "--dist", "--nproc-per-node", "--run", "--steps", "--batch-size"}
    known |= {"--color"}
    known |= {"--unshallow", "--all", "--detach", "--write-faults", "--deselect", "--hf-token", "--pad-token"}
    known |= {"--save", "--resume", "--ckpt"}
    # of the repositories of docs/guides/first-hour.md, up to the first `_`
    known |= {
        "--work-dir",
        "--num-workers",
        "--max-steps",
        "--base",
        "--data",
        "--device",
        "--dtype",
        "--eval",
        "--trainer",
    }
    known |= {"--num", "--output"}
    known |= {"--save", "--resume", "--ckpt", "--out", "--batch", "--layers", "--width", "--precision", "--max-steps"}
    known |= {"--backend", "--standalone", "--system", "--trainer", "--report", "--assert-equal", "--force-regen"}
    known |= {"--seed", "--output", "--ours", "--num", "--max", "--html"}
    for benchmark in ("audit.py", "audit_peers.py", "detection.py", "histories.py", "public.py", "unseen.py"):
        known |= set(OPTION.findall((ROOT / "benchmarks" / benchmark).read_text(encoding="utf-8")))
    # What was tried with commands of users stands in the generated part of a page.
    text = page.read_text(encoding="utf-8").partition("<!-- What follows is written by")[0]
    unknown = set(OPTION.findall(text)) - known
    assert not unknown, f"{page.name} mentions options that do not exist: {sorted(unknown)}"


def test_pytest_options_are_documented() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    plugin = (ROOT / "pytest_traincheck" / "plugin.py").read_text(encoding="utf-8")
    for option in re.findall(r'addoption\("(--[a-z-]+)"', plugin):
        assert f"`{option}" in page, f"docs/configuration.md does not mention {option}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken_links(page), f"{page.name} links to what does not exist"


def test_first_two_commands_do_the_set_up() -> None:
    """One line each, alike but for the tox environment, and these environments exist."""
    first, second = (block.text.strip() for block in blocks(README, "")[:2])
    assert first.replace("-e demo", "-e tests") == second
    assert "&& .venv/bin/tox" in first
    tox = configparser.ConfigParser()
    tox.read(ROOT / "tox.ini")
    assert {"testenv:demo", "testenv:tests"} <= set(tox.sections())
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    assert {".venv/", ".tox/"} <= set(ignored)


def test_torch_is_pinned_wherever_it_is_installed() -> None:
    assert re.search(r"^torch==\d", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    assert tox["testenv"]["constrain_package_deps"] == "true"
    for name in tox.sections():
        deps = tox[name].get("deps", "").splitlines()
        if "torch" in deps:
            assert any("constraints.txt" in line for line in deps), f"[{name}] would install any torch"


def test_golden_line_is_a_golden_line() -> None:
    """The rule shown in how-it-works is one that the reader of goldens takes, id and all."""
    (block,) = blocks(ROOT / "docs" / "how-it-works.md", "json")
    line = json.loads(block.text)
    header = {"format": 1, "pipeline": "mnist_cnn", "spec": "", "commit": "", "environment": {}, "seeds": [], "runs": 3}
    header |= {"invariants": 1, "reason": "", "models": {}, "optimizers": {}}
    golden = decode(f"{json.dumps(header)}\n{block.text.strip()}\n".encode(), "page")
    assert golden.invariants[0].id == line["id"]


def test_python_of_the_readme_is_a_test_that_uses_the_fixture() -> None:
    (block,) = blocks(README, "python")
    names: dict[str, object] = {}
    exec(compile(block.text, "README.md", "exec"), names)
    function = names["test_tiny_model"]
    assert callable(function)
    assert "traincheck" in function.__code__.co_varnames


def test_picture_is_an_image_with_a_description() -> None:
    root = ElementTree.parse(ROOT / "docs" / "idea.svg").getroot()
    assert root.find("{http://www.w3.org/2000/svg}desc") is not None
    assert "](docs/idea.svg)" in README.read_text(encoding="utf-8")


def test_help_names_every_command_of_the_readme() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest_traincheck", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for command in {shlex.split(line)[1] for line in commands(README, "traincheck")}:
        assert re.search(rf"^\s+{command}\b", done.stdout, re.MULTILINE)
