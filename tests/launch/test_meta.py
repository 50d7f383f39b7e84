"""What a trace tells of the command that its processes were started with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_traincheck.launch.meta import hide


def _meta(directory: Path, content: object) -> Path:
    process = directory / "proc-1-1"
    process.mkdir(parents=True)
    path = process / "meta.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.fault(
    area="Secrets",
    tried="a token among the arguments of the processes of a run",
    happens="`***` in their traces when the run has ended; the rest of the trace stays",
)
def test_secrets_are_hidden_in_traces(tmp_path: Path) -> None:
    path = _meta(tmp_path, {"argv": ["train.py", "--hf-token", "abcdef", "--lr=0.1", "--out", "/x/tmp"], "rank": 3})
    hide(tmp_path, Path("/x/tmp"))
    assert json.loads(path.read_text()) == {
        "argv": ["train.py", "--hf-token", "***", "--lr=0.1", "--out", "{tmp}"],
        "rank": 3,
    }
    assert [item.name for item in path.parent.iterdir()] == ["meta.json"]


@pytest.mark.parametrize("content", ["{", "[]", {"argv": 3}, {"argv": [3]}, {}])
def test_what_is_no_description_is_left(tmp_path: Path, content: object) -> None:
    path = _meta(tmp_path, content)
    before = path.read_text()
    hide(tmp_path, None)
    assert path.read_text() == before
