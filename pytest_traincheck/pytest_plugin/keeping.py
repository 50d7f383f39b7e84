"""Where the runs of tests are kept with `--traincheck-artifacts`, so that a failure leaves a bundle."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from pytest_traincheck.launch.run_directory import clear_processes
from pytest_traincheck.workflow.runs import CANDIDATE, ArtifactsError, Workspace, kept_workspace

_LONGEST = 60


def kept_place(artifacts: Path, name: str, test: str) -> Workspace:
    """The directory of one pipeline in one test, without what an earlier run left there. Raises `ArtifactsError`.

    Several tests may train the same pipeline, in several workers of xdist even, so each has a directory of its own:
    `net-test_tiny-3f2a`, the last of it a hash of the whole node id.
    """
    function = re.sub(r"[^A-Za-z0-9_.-]+", "-", test.rpartition("::")[2]).strip("-.")[:_LONGEST]
    digest = hashlib.blake2b(test.encode("utf-8", "surrogatepass"), digest_size=2).hexdigest()
    space = kept_workspace(artifacts, f"{name}-{function}-{digest}")
    try:
        clear_processes(space.path / CANDIDATE)
    except OSError as error:
        raise ArtifactsError(
            f"No artifacts can be kept in {space.path}: {error.strerror or error}. "
            "Give a directory that can be written."
        ) from error
    return space
