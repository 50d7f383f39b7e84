"""A project with a golden, and commands that do not train."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_engine import PINNED, STEP, ZERO, FakeEngine

from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.golden import store
from pytest_traincheck.golden.model import Golden


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEngine:
    import sys

    fake = FakeEngine()
    for name in ("compare", "check", "refresh"):
        module = sys.modules[f"pytest_traincheck.cli.{name}"]
        monkeypatch.setattr(module, "default_engine", fake.engine)
    return fake


SPEC = PipelineSpec("net", "python train.py", seed_arg="--seed {seed}")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with one configured pipeline and its golden; the current directory."""
    (tmp_path / "pyproject.toml").write_text(
        "[tool.traincheck.pipelines.net]\nrun = 'python train.py'\nseed_arg = '--seed {seed}'\n"
    )
    golden = Golden("net", SPEC.fingerprint(), (STEP, ZERO, PINNED), "c0ffee", {}, (0, 1, 2), 3)
    store.write(tmp_path / "golden_invariants" / "net.jsonl", golden)
    for side in ("golden", "candidate"):
        (tmp_path / side).mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path
