"""Export of a run's trace to Parquet, one row an event, with symbols resolved to names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pytest_traincheck.trace import format as fmt
from pytest_traincheck.trace.errors import TraceError
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.show import processes_of
from pytest_traincheck.trace.stages import STAGES
from pytest_traincheck.trace.variables import Variables


def to_parquet(run_dir: Path, path: Path) -> int:
    """Writes all processes of a run into one Parquet file and returns the number of rows.

    Raises:
        TraceError: nothing was observed, or pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise TraceError(
            "Parquet export needs pyarrow, which is not installed: run `pip install 'pytest-traincheck[parquet]'`"
        ) from error
    processes = processes_of(run_dir)
    tables = [pa.table(_columns(process)) for process in processes]
    table = pa.concat_tables(tables)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    pq.write_table(table, temporary)
    temporary.replace(path)
    return int(table.num_rows)


def _columns(process: Process) -> dict[str, object]:
    events = process.events
    variables = Variables.of(process)
    is_call = process.is_call
    is_change = events["kind"] == fmt.CHANGE
    subject = events["subject"]
    about = np.where(is_change, subject, np.where(events["kind"] == fmt.MEASURE, events["args"], 0))
    measured = [str(symbol.get("name", "")) for symbol in process.raw.symbols["measure"]]
    size = len(events)
    return {
        "rank": np.full(size, process.rank),
        "pid": np.full(size, int(process.raw.meta.get("pid", 0))),
        "kind": _named(events["kind"], ("end", "call", "change", "measure")),
        "seq": events["seq"].astype(np.int64),
        "end": events["end"].astype(np.int64),
        "parent": events["parent"].astype(np.int64),
        "step": process.window.astype(np.int64),
        "stage": _named(process.stage, STAGES),
        "name": np.where(
            is_call,
            _named(np.where(is_call, subject, 0), process.api_names),
            _named(about, process.names.variables),
        ),
        "type": np.where(
            is_call,
            _named(np.where(is_call, subject, 0), process.api_types),
            np.where(
                is_change,
                _named(np.where(is_change, subject, 0), [variables.kind[i] for i in range(len(variables.symbols))]),
                _named(np.where(is_call | is_change, 0, subject), measured),
            ),
        ),
        "module": _named(events["mod"], process.names.modules),
        "optimizer": _named(events["opt"], process.names.optimizers),
        "source": _named(events["src"], [f"{s['file']}:{s['line']}" if s else "" for s in process.raw.symbols["src"]]),
        "old": _named(events["old"], fmt.STATE_NAMES),
        "new": _named(events["new"], fmt.STATE_NAMES),
        "digest": events["digest"].astype(np.uint64),
        "value": events["value"].astype(np.float64),
        "raised": (events["flags"] & fmt.RAISED) != 0,
    }


def _named(codes: npt.ArrayLike, table: Sequence[str]) -> npt.NDArray[np.object_]:
    names: npt.NDArray[np.object_] = np.array(list(table), dtype=np.object_)
    return names[np.asarray(codes, dtype=np.int64)]
