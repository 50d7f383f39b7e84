"""What a session with `--traincheck-refresh` has learned so far; written when it ends, all or nothing."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_traincheck.check.result import Incident
from pytest_traincheck.check.serialise import from_plain, to_plain
from pytest_traincheck.workflow.refresh import Relearned
from pytest_traincheck.workflow.refresh_intent import Acceptance
from pytest_traincheck.workflow.refresh_text import refused_text, shell

PROPERTY = "traincheck_learned"
"""Property of the reports of tests that learn a golden: its name. It travels from an xdist worker by itself."""


@dataclass
class Learned:
    """Goldens by name as this process has learned them, and the names that tests have `used` by the fixture."""

    goldens: dict[str, Relearned] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


LEARNED: pytest.StashKey[Learned] = pytest.StashKey()


def learned_of(config: pytest.Config) -> Learned:
    """That of the session; made when it is first asked for."""
    return config.stash.setdefault(LEARNED, Learned())


def refusal(name: str, refused: Sequence[Incident], acceptance: Acceptance, place: Sequence[str]) -> str:
    """The text of a test whose golden was not learned for these incidents. `place` is what to type to run it alone."""

    def command(_pipeline: str, identity: str) -> str:
        words = ["pytest", "--traincheck-refresh", *place]
        for accepted in (*acceptance.names, identity) if identity else ():
            words += ["--traincheck-accept", accepted]
        return shell(words if identity else [*words, "--traincheck-accept-all"])

    return refused_text({name: refused}, command)


def learned_to_plain(item: Relearned) -> dict[str, Any]:
    """In built-in types, since an xdist worker may send no others."""
    return {
        "pipeline": item.pipeline,
        "path": str(item.path),
        "result": to_plain(item.result),
        "files": {str(path): base64.b64encode(data).decode("ascii") for path, data in item.files.items()},
        "rules": item.rules,
        "diff": item.diff,
        "reason": item.reason,
        "notes": list(item.notes),
        "warnings": list(item.warnings),
    }


def learned_from_plain(content: Mapping[str, Any]) -> Relearned:
    """What `learned_to_plain` wrote."""
    return Relearned(
        content["pipeline"],
        Path(content["path"]),
        from_plain(content["result"]),
        {Path(path): base64.b64decode(text) for path, text in content["files"].items()},
        content["rules"],
        content["diff"],
        content["reason"],
        tuple(content["notes"]),
        tuple(content["warnings"]),
    )
