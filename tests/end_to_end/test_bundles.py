"""What a CI job keeps of a real failing run, replayed elsewhere."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from training_repository import FailedJob, environment

pytestmark = pytest.mark.slow

NO_TORCH = (
    "import sys\nsys.modules['torch'] = None\nfrom pytest_traincheck.cli import main\nsys.exit(main(sys.argv[1:]))\n"
)


def replay(where: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`traincheck replay` as on a machine that cannot train."""
    return subprocess.run(
        [sys.executable, "-c", NO_TORCH, "replay", *arguments],
        cwd=where, env=environment(), capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_the_bundle_shows_the_same_without_training_elsewhere(failed_job: FailedJob, tmp_path: Path) -> None:
    original = json.loads(failed_job.json.read_text())
    assert original["verdict"] == "fail"
    bundle = tmp_path / "downloads" / "bundle"
    shutil.copytree(failed_job.artifacts / "net" / "bundle", bundle)
    reports = [f"--{kind}={tmp_path / kind}" for kind in ("json", "junit", "html")]

    replayed = replay(tmp_path, "downloads/bundle", *reports)
    assert replayed.returncode == 1, replayed.stdout + replayed.stderr
    result = json.loads((tmp_path / "json").read_text())
    assert [incident["id"] for incident in result["incidents"]] == [item["id"] for item in original["incidents"]]
    top = result["incidents"][0]
    assert top["title"] == original["incidents"][0]["title"]
    assert top["diff"]["hunk"] == original["incidents"][0]["diff"]["hunk"]
    # Replay of the numbers needs those of the platform that the candidate ran on.
    assert result["modules"] == original["modules"] != []
    assert result["golden"]["environment"] == original["golden"]["environment"]
    assert result["candidate"]["commit"] == original["candidate"]["commit"]
    assert "-    optimizer.zero_grad()" in replayed.stdout
    assert result["commands"] == original["commands"]
    assert "reproduce: traincheck check net\n" in replayed.stdout
    assert "torch.optim.SGD.zero_grad" in (tmp_path / "junit").read_text()
    assert "replayed from a bundle" in (tmp_path / "html").read_text()


def test_the_slice_is_a_trace_like_any_other(failed_job: FailedJob) -> None:
    bundle = failed_job.artifacts / "net" / "bundle"
    whole, part = (
        sum(path.stat().st_size for path in directory.glob("candidate/proc-*/events.bin"))
        for directory in (bundle.parent, bundle)
    )
    assert 0 < part < whole
    shown = failed_job.repository.call("pytest_traincheck", "trace", str(bundle / "candidate"), "--events", "5")
    assert shown.returncode == 0, shown.stderr
    assert "3 of SGD[Sequential]" in shown.stdout  # the violation is in step 1, one more is kept


def test_an_archive_of_all_artifacts_will_do(failed_job: FailedJob, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "traincheck"), "zip", failed_job.artifacts)
    assert replay(tmp_path, archive).returncode == 1
    Path(archive).write_bytes(Path(archive).read_bytes()[:-200])
    damaged = replay(tmp_path, archive)
    assert damaged.returncode == 2
    assert len(damaged.stderr.splitlines()) == 1
