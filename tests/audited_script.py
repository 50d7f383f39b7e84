"""What an audit finds in a script, run in this process: for many scripts, of which a command would start torch anew."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

import pytest_traincheck
from pytest_traincheck.workflow.audit_block import Found


def audited(directory: Path, script: str) -> Found:
    """Errors and warnings of the whole training, which raises what the script raises."""
    path = directory / "train.py"
    path.write_text(script, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)  # the configuration is looked for there
        with pytest_traincheck.audit() as found:
            runpy.run_path(str(path), run_name="__main__")
    assert not found.audit.errors, found
    assert found.audit.steps > 0, "a training was expected"
    return found


def laws(found: Found) -> list[str]:
    """The rules that were found broken, of either level."""
    return [item.rule.id for item in found.audit.findings]
