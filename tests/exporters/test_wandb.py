"""An offline run is there, and holds what was told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent

# In a process of its own, since W&B starts one, and warns in this one.
TELLS = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from trainings import DOCUMENT, INCIDENT
from pytest_traincheck.report.exporting import Exports, export_target

export = Exports([export_target(f"wandb={{sys.argv[1]}}")], "net", sys.exit)
export.steps(4)
export.incident(INCIDENT, 4)
export.end(DOCUMENT)
assert "torch" not in sys.modules
"""

# The file is a log of LevelDB: blocks of 32 KiB, in which each record has a header of checksum, length and type.
READS = """
import json, struct, sys
from wandb.proto import wandb_internal_pb2

content = open(sys.argv[1], "rb").read()
assert content[:4] == b":W&B"
place, parts, summary, history = 7, b"", {}, []

def named(items):
    return {"/".join([item.key, *item.nested_key]).strip("/"): json.loads(item.value_json) for item in items}

while place + 7 <= len(content):
    if 32768 - place % 32768 < 7:
        place += 32768 - place % 32768
        continue
    _, length, kind = struct.unpack_from("<IHB", content, place)
    parts += content[place + 7 : place + 7 + length]
    place += 7 + length
    if kind in (1, 4):
        record = wandb_internal_pb2.Record.FromString(parts)
        parts = b""
        summary.update(named(record.summary.update))
        if record.HasField("history"):
            history.append(named(record.history.item))
print(json.dumps([summary, history]))
"""


def _python(code: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_training_is_an_offline_run(tmp_path: Path) -> None:
    _python(TELLS, str(tmp_path / "kept"))
    (file,) = (tmp_path / "kept").rglob("run-*.wandb")
    assert file.parent.name.startswith("offline-run-")
    summary, history = json.loads(_python(READS, str(file)).splitlines()[-1])
    assert summary["traincheck/verdict"] == "fail"
    assert summary["traincheck/rules/violated"] == 1
    assert "zero_grad is" in summary["traincheck/incident/000094011587"]
    (told,) = history
    assert (told["traincheck/step"], told["traincheck/incidents"]) == (3, 1)
