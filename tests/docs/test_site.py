"""The documentation as a site: every page has its place, the reference is the code's, a strict build is silent."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from pages import ROOT

from pytest_traincheck.cli.main import build_parser

DOCS = ROOT / "docs"


class _Loader(yaml.SafeLoader):
    """Reads `mkdocs.yml`, in which functions are named by a tag."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda _loader, suffix, _node: suffix)


def _site() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), _Loader)
    return loaded


def _named(nav: object) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    items = nav.values() if isinstance(nav, dict) else nav
    return [page for item in items for page in _named(item)]  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference", ROOT / "website" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["reference"] = module
    spec.loader.exec_module(module)
    return module


def test_every_page_has_one_place(reference: ModuleType) -> None:
    site = _site()
    named = _named(site["nav"])
    assert len(named) == len(set(named))
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    made = set(reference.pages())
    assert set(named) <= written | made
    folders = tuple(f"{folder}/" for folder in site["extra"]["folders"].values())
    missing = {page for page in (written | made) - set(named) if not page.startswith(folders)}
    assert not missing, f"mkdocs.yml does not name {sorted(missing)}"


def test_measurements_are_behind_everything_else() -> None:
    sections = [next(iter(section)) for section in _site()["nav"]]
    assert sections == ["Start", "How to", "Reference", "Explanation", "Measurements"]


def test_the_reference_has_every_option(reference: ModuleType) -> None:
    page = reference.command_options()
    (commands,) = (item for item in build_parser()._actions if isinstance(item, argparse._SubParsersAction))
    sections = dict(re.findall(r"^### traincheck ([\w-]+)\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    for name, parser in commands.choices.items():
        if name not in sections:
            continue  # a second name of the same command
        shown = set(re.findall(r"`(--[\w-]+)`", sections[name]))
        actions = [item for item in parser._actions if item.help != argparse.SUPPRESS]
        known = {option for item in actions for option in item.option_strings if option.startswith("--")}
        assert known - {"--help"} <= shown
    assert {id(commands.choices[name]) for name in sections} == {id(parser) for parser in commands.choices.values()}


def test_the_reference_has_every_option_of_pytest(reference: ModuleType) -> None:
    page = reference.pytest_options()
    assert "`--traincheck`" in page
    assert "`traincheck_jobs`" in page


def test_the_commands_that_the_tests_run_build_it() -> None:
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    assert "mkdocs build --strict" in tox
    assert "docs" in (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_strict_build_warns_of_nothing(tmp_path: Path) -> None:
    """Links and anchors are checked by MkDocs, and those that leave the folder lead to the repository."""
    pytest.importorskip("mkdocstrings", reason="the site is built with the extra `docs`")
    pytest.importorskip("material", reason="the site is built with the extra `docs`")
    where = "https://code.example.org/team/pytest-traincheck"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "PYTEST_TRAINCHECK_URL": where, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    guide = (tmp_path / "guides" / "ci.html").read_text(encoding="utf-8")
    assert f'href="{where}/blob/HEAD/ci/github-actions.yml"' in guide
    # Nothing is loaded from elsewhere.
    loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]+)"', guide)
    assert [address for address in loaded if not address.startswith(where)] == []
