"""What one golden run computed in its first steps, as numbers: calls, and sketches of what went in and came out.

A recording belongs to one platform, like every number of a golden, and lies in the same file. It holds tables of
integers that point into `strings`, and no objects.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pytest_traincheck.golden.course import Course
from pytest_traincheck.golden.portrait import Portrait
from pytest_traincheck.golden.step_log import StepLog

Rows = npt.NDArray[np.void]

CALLS = np.dtype(
    [
        ("process", "<u4"),
        ("parent", "<i4"),
        ("begin", "<u4"),
        ("end", "<u4"),
        ("window", "<u4"),
        ("name", "<u4"),
        ("kind", "<u4"),
        ("module", "<u4"),
        ("optimizer", "<u4"),
        ("arguments", "<u4"),
        ("autocast", "<u4"),
        ("flags", "<u4"),
    ]
)
"""`parent` is the position of the enclosing call in the table or -1; `name` to `autocast` point into the strings."""

SKETCHES = np.dtype(
    [
        ("process", "<u4"),
        ("call", "<i4"),
        ("at", "<u4"),
        ("slot", "<u4"),
        ("dtype", "<u4"),
        ("shape", "<u4"),
        ("variable", "<u4"),
        ("kind", "<u4"),
        ("size", "<u4"),
        ("faint", "<u4"),
        ("digest", "<u8"),
        ("norm", "<f8"),
        ("mean", "<f8"),
        ("projections", "<f8", (4,)),
    ]
)
"""`call` is a position among the calls or -1; `variable` and its `kind` are empty for the tensors of a call."""

TRAINING, GRAD, ENTRY = 1, 2, 4
"""Flags of a call: the module was in train mode, gradients were recorded, it is the forward pass of a whole model (not
one of set-up, before there is an optimizer).
"""

PHASE, EVALUATION = "phase", "phase.evaluation"
"""Slots of sketches that stand where sketching began again: with an optimizer that was made later, or for the first
calls of an evaluation.
"""

CHOSEN, DRAWN = "fetch.chosen", "fetch.drawn"
"""Slots of hashes of how a batch was made: of which examples, and with which random numbers; of size 1 where a worker
made it.
"""

_TEXTS = ("name", "kind", "module", "optimizer", "arguments", "autocast")
_SKETCH_TEXTS = ("slot", "dtype", "shape", "variable", "kind")


@dataclass(frozen=True, eq=False)
class Recording:
    """The tables of one run. `calls` are in order of begin within each process, `sketches` in order of time."""

    strings: tuple[str, ...]
    calls: Rows
    sketches: Rows
    seed: str = ""
    unstable: tuple[str, ...] = ()
    """Places where another golden run gave something else for the same."""
    unrepeated: tuple[str, ...] | None = None
    """Places that another golden run with the same seed did not reach with the same inputs; None where no seed was run
    twice, so that nobody knows.
    """
    repeated: bool = False
    """Whether another golden run had the same batches to make, so that it is known which of them come again."""
    courses: tuple[Course, ...] = ()
    """What the parameters of each training process went through in the whole run; empty where nobody knows."""
    logs: tuple[StepLog, ...] = ()
    """What each step of each training process was given and left, as far as another run with the seed has it too."""
    portrait: Portrait | None = None
    """What is drawn of the golden runs; None in files of earlier versions."""

    def __post_init__(self) -> None:
        if self.calls.dtype != CALLS or self.sketches.dtype != SKETCHES:
            raise ValueError("the tables of a recording have other columns than this format")
        texts = len(self.strings)
        for table, names in ((self.calls, _TEXTS), (self.sketches, _SKETCH_TEXTS)):
            if any(len(table) and int(table[name].max()) >= texts for name in names):
                raise ValueError("a table points to a text that is not there")
        if len(self.calls):
            own = np.arange(len(self.calls))
            if not ((self.calls["parent"] < own) & (self.calls["parent"] >= -1)).all():
                raise ValueError("a call lies within one that comes later")
        if len(self.sketches):
            calls = self.sketches["call"]
            if int(calls.min()) < -1 or int(calls.max()) >= len(self.calls):
                raise ValueError("a sketch belongs to a call that is not there")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recording) and self.to_arrays() == other.to_arrays()

    def to_arrays(self) -> tuple[bytes, bytes, bytes]:
        """Texts as JSON, and both tables, as bytes."""
        content: dict[str, Any] = {
            "seed": self.seed,
            "strings": list(self.strings),
            "unstable": list(self.unstable),
        }
        if self.unrepeated is not None:
            content["unrepeated"] = list(self.unrepeated)
        if self.repeated:
            content["repeated"] = True
        if self.courses:
            content["courses"] = [course.to_json() for course in self.courses]
        if self.logs:
            content["logs"] = [log.to_json() for log in self.logs]
        if self.portrait is not None:
            content["portrait"] = self.portrait.to_json()
        text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
        return text.encode("ascii"), self.calls.tobytes(), self.sketches.tobytes()

    @staticmethod
    def from_arrays(text: bytes, calls: bytes, sketches: bytes) -> Recording | None:
        """The recording that `to_arrays` gave; None for one without calls.

        Raises:
            ValueError: the bytes are not such a recording.
        """
        content: Any = json.loads(text.decode("ascii")) if text else {}
        if not content:
            return None
        optional = {"unrepeated", "repeated", "courses", "logs", "portrait"}
        if not isinstance(content, dict) or set(content) - optional != {"seed", "strings", "unstable"}:
            raise ValueError("the texts of a recording have other keys than this format")
        strings, unstable, unrepeated = content["strings"], content["unstable"], content.get("unrepeated")
        for texts in (strings, unstable, [] if "unrepeated" not in content else unrepeated):
            if not isinstance(texts, list) or not all(isinstance(item, str) for item in texts):
                raise ValueError("the texts of a recording are not a list of texts")
        if not isinstance(content["seed"], str):
            raise ValueError("the seed of a recording is not a text")
        if not isinstance(content.get("repeated", False), bool):
            raise ValueError("whether a recording was repeated is neither true nor false")
        for name in ("courses", "logs"):
            if not isinstance(content.get(name, []), list):
                raise ValueError(f"the {name} of a recording are not a list")
        if len(calls) % CALLS.itemsize or len(sketches) % SKETCHES.itemsize:
            raise ValueError("a table of a recording ends in the middle of a row")
        return Recording(
            tuple(strings),
            np.frombuffer(calls, dtype=CALLS),
            np.frombuffer(sketches, dtype=SKETCHES),
            content["seed"],
            tuple(unstable),
            None if unrepeated is None else tuple(unrepeated),
            content.get("repeated", False),
            tuple(Course.from_json(course) for course in content.get("courses", [])),
            tuple(StepLog.from_json(log) for log in content.get("logs", [])),
            Portrait.from_json(content["portrait"]) if "portrait" in content else None,
        )
