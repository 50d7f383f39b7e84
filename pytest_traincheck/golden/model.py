"""The golden artefact: invariants of one pipeline and where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_traincheck.rules.model import Invariant

if TYPE_CHECKING:
    # numpy is not needed to look at rules.
    from pytest_traincheck.golden.numbers import Numbers
    from pytest_traincheck.golden.recording import Recording

FORMAT = 2
"""Version of the golden file; a reader refuses what is newer."""

IGNORES_SEED = "ignores_seed"
"""Key of the header of a golden whose runs were alike though their seeds were not; `true` where it stands."""

EXTENSIONS = "extensions"
"""Key of the header of a golden whose runs plug-ins had something to do with."""
ARGUMENTS = "arguments"
"""Key of the header that is there where models are called with arguments."""
STEPS = "steps"
"""Key of the header that says how long the golden runs were; files of earlier versions lack it."""
TRAININGS = "trainings"
"""Key of the header of a golden in whose runs a process went on with the training of another one."""


IN_PROCESS = "in-process:"
"""How the spec of a golden begins that was learned inside of a test."""


@dataclass(frozen=True)
class Golden:
    """All invariants of one pipeline.

    `spec` identifies what was run (see `PipelineSpec.fingerprint`); `models` and `optimizers` describe the tracked
    variables, so that renamed classes can be matched: root name -> parameter name -> shape.
    `numbers` are those of one `platform`, by the id of their invariant, and `recording` is what one run computed there;
    they lie in a file of their own.
    """

    pipeline: str
    spec: str
    invariants: tuple[Invariant, ...]
    commit: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    runs: int = 0
    reason: str = ""
    models: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    optimizers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of the arguments of each model, in order."""
    platform: str = ""
    numbers: Mapping[str, Numbers] = field(default_factory=dict)
    recording: Recording | None = None
    ignores_seed: bool = False
    """Whether all runs were alike though their seeds were not."""
    extensions: Mapping[str, str] = field(default_factory=dict)
    """What plug-ins had observed and looked through that its runs gave an occasion for, each with a hash of what was
    said of it. The key of a framework begins with `framework `, that of an observation is its API.
    """
    steps: int = 0
    """Training steps of the shortest golden run: beyond them nobody knows what golden would have done. 0: unknown."""
    trainings: tuple[int, ...] = ()
    """For each launch of a run, in order, the number of the training that it is a part of; empty where each is one of
    its own.
    """
