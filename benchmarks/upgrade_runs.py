"""Environments with other versions of a library, and the runs of pipelines in them; kept, and used again."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from measure import REPOSITORY, own_package, run, traincheck
from planted import Pipeline, tree_of

sys.path.insert(0, str(REPOSITORY))

from pytest_traincheck.launch.installation import read_installation
from pytest_traincheck.launch.progress import QuietProgress
from pytest_traincheck.launch.second_environment import Requirements, second_environment
from pytest_traincheck.trace import Run, load_run


@dataclass(frozen=True)
class Version:
    """An environment: `requirements` over that of the interpreter that runs the benchmark."""

    name: str
    requirements: tuple[str, ...]


@dataclass(frozen=True)
class Runner:
    """Runs pipelines under the probe below `scratch`. What is there is used again, so a stopped benchmark goes on."""

    scratch: Path
    timeout: float

    def record(self, pipeline: Pipeline, version: Version, seed: int) -> str:
        """Run a pipeline once, unless that was done before; what went wrong, or nothing."""
        trace = self.trace(pipeline, version, seed)
        done = trace.parent / "done"
        if done.exists():
            return ""
        shutil.rmtree(trace.parent, ignore_errors=True)
        trace.parent.mkdir(parents=True)
        tree = tree_of(pipeline, trace.parent / pipeline.folder.name)
        words: list[str | Path] = ["collect", "--run", pipeline.run, "--cwd", tree, "--output", trace]
        words += ["--seed", str(seed), "--seed-arg", pipeline.seed_arg, "--timeout", str(int(self.timeout))]
        words += ["--python", _interpreter(version)]
        ended = run(traincheck(*words), cwd=trace.parent, env=own_package(), timeout=self.timeout + 60)
        if ended.returncode:
            return ended.output[-1500:]
        done.touch()
        return ""

    def load(self, pipeline: Pipeline, version: Version, seed: int) -> Run:
        return load_run(self.trace(pipeline, version, seed))

    def trace(self, pipeline: Pipeline, version: Version, seed: int) -> Path:
        return self.scratch / "runs" / version.name / pipeline.name / str(seed) / "trace"


def _interpreter(version: Version) -> Path:
    base = read_installation(Path(sys.executable))
    return second_environment(base, Requirements.parse(version.requirements), QuietProgress()).python
