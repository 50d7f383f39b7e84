"""Libraries of a run and their versions, and whether a rule holds with them."""

from __future__ import annotations

from collections.abc import Mapping

from packaging.version import InvalidVersion, Version

from pytest_traincheck.trace import Run

DISTRIBUTED = "torch-distributed"
"""What a pack is for that speaks of trainings on several ranks."""


def libraries(run: Run) -> Mapping[str, str]:
    """The libraries that the processes of a run imported, with their versions; torch on several ranks is one."""
    found: dict[str, str] = {}
    for process in (*run.processes, *run.workers):
        versions = process.raw.meta.get("versions")
        if isinstance(versions, dict):
            for name, version in versions.items():
                found.setdefault(str(name), str(version))
    if run.peers and "torch" in found:
        found[DISTRIBUTED] = found["torch"]
    return found


def reaches(version: str, since: str) -> bool:
    """Whether a version is `since` or a later one. What is no version is taken for the newest."""
    if not since:
        return True
    try:
        return Version(Version(version).base_version) >= Version(since)
    except InvalidVersion:
        return True
