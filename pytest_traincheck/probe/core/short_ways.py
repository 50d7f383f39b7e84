"""What the compiled core is told of a recorder, and a writer whose rows it packs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..writer import TraceWriter
from . import native

if TYPE_CHECKING:
    from ..recorder import Recorder


class CoreWriter(TraceWriter):
    """A writer whose rows are packed by the compiled core, which makes room for them as well."""

    core = "c"

    def __init__(self, run_dir: Path) -> None:
        super().__init__(run_dir)
        self.table = self._events.hand_over(native.Rows, self._no_room)
        # Whoever writes rows calls the core itself.
        self.call = self.table.call  # type: ignore[method-assign]
        self.change = self.table.change  # type: ignore[method-assign]
        self.measure = self.table.measure  # type: ignore[method-assign]
        self.complete = self.table.complete  # type: ignore[method-assign]

    @property
    def rows(self) -> int:
        return int(self.table.rows)

    @property
    def lost(self) -> int:
        return self._lost + int(self.table.lost)

    def _no_room(self, error: OSError) -> None:
        self.error("writing events.bin", error)

    def close(self, finished: bool) -> None:
        with self._lock:
            self.table.close()
            super().close(finished)

    def abandon(self) -> None:
        self.table.close()
        super().abandon()


def writer(run_dir: Path) -> TraceWriter:
    """What writes the trace of this process."""
    return TraceWriter(run_dir) if native is None else CoreWriter(run_dir)


def of(recorder: Recorder) -> Any:
    """The compiled core of a recorder, None where Python does everything."""
    if not isinstance(recorder.writer, CoreWriter):
        return None
    return native.Core(
        recorder.thread_states,
        recorder.clock,
        recorder.symbols.tables,
        recorder.sources.tables,
        recorder.modules.infos,
        (
            recorder,
            recorder.by_hand,
            recorder.sketches,
            recorder.measures,
            recorder.measures.following,
            recorder.measures.given,
            recorder.variables,
            recorder.modules,
            recorder.backwards,
            recorder.optimizers,
            recorder.attributes,
            recorder.evaluations,
        ),
        recorder.writer.table,
    )
