"""Without `--traincheck` the plugin costs nothing: it imports neither the rest of this package nor what that needs."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

WATCH = """
import sys

HEAVY = {"torch", "numpy", "git", "rich", "jinja2", "psutil", "filelock", "junit_xml"}

def pytest_unconfigure():
    found = HEAVY.intersection(sys.modules)
    found.update(name for name in sys.modules if name.startswith("pytest_traincheck."))
    print("LOADED", *sorted(found - {"pytest_traincheck.plugin", "pytest_traincheck.hookspecs"}))
"""


@pytest.fixture
def loaded(pytester, monkeypatch):
    """Runs pytest with the plugin and no other, and says what was imported by the end."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile("def test_one(): pass")
    pytester.makeconftest(WATCH)
    (pytester.path / "pyproject.toml").write_text("[tool.traincheck.pipelines.net]\nrun = 'python train.py'\n")

    def run(*arguments):
        result = pytester.runpytest_subprocess("-p", "pytest_traincheck.plugin", *arguments)
        (line,) = [line for line in result.outlines if line.startswith("LOADED")]
        return line.split()[1:]

    return run


def test_inactive_plugin_imports_nothing(loaded):
    assert loaded() == []


def test_active_plugin_imports_no_torch(loaded):
    assert "torch" not in loaded("--traincheck", "--collect-only")


def test_the_test_above_can_fail(loaded, pytester):
    assert "pytest_traincheck.pytest_plugin.session" in loaded("--traincheck", "--collect-only")
    pytester.makepyfile("import numpy\ndef test_one(): pass")
    assert loaded() == ["numpy"]
