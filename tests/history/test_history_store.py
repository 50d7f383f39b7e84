"""A history is added to by many at once, and read as what anybody may have written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kept_checks import a_month, check

from pytest_traincheck.history.record import HistoryError
from pytest_traincheck.history.store import append, read

TESTS = Path(__file__).parents[1]


def _line() -> dict[str, object]:
    return check(0).to_json()


def test_what_was_added_is_read_again(tmp_path: Path) -> None:
    for record in a_month():
        append(tmp_path / "ci" / "history.jsonl", record)
    assert read([tmp_path / "ci" / "history.jsonl"]) == a_month()


def test_several_files_are_one_history_and_nothing_counts_twice(tmp_path: Path) -> None:
    for name, records in (("a", a_month()[::2]), ("b", a_month())):
        for record in records:
            append(tmp_path / name, record)
    assert sorted(map(str, read([tmp_path / "a", tmp_path / "b"]))) == sorted(map(str, a_month()))


def test_jobs_that_end_at_the_same_time_spoil_nothing(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    code = (
        f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
        "from pathlib import Path; from kept_checks import check; from pytest_traincheck.history.store import append\n"
        f"for n in range(40): append(Path({str(path)!r}), check(n, branch=sys.argv[1] * 3000))"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, name]) for name in "abcd"]
    assert [writer.wait() for writer in writers] == [0] * 4
    found = read([path])
    assert len(found) == 160
    assert {record.branch[0] for record in found} == set("abcd")


def test_a_line_that_a_killed_job_left_is_closed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    append(path, check(0))
    path.write_bytes(path.read_bytes() + b'{"format": 1, "wh')
    append(path, check(1))
    assert path.read_bytes().count(b"\n") == 3
    with pytest.raises(HistoryError, match=r"history\.jsonl, line 2: the line is not valid JSON .*Delete this line"):
        read([path])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 2}, "line 1: the line has format 2, and this version reads up to 1"),
        ({"when": "yesterday"}, "`when` is 'yesterday' and no time"),
        ({"when": "2026-11-01T12:00:00"}, "without a time zone"),
        ({"verdict": "good"}, "`verdict` is 'good'; it must be one of pass, fail, error"),
        ({"pipelines": [3]}, "`pipelines` is .* not a list of objects"),
        ({"extra": 1}, "'extra' is not a key"),
        ({"commit": None}, "`commit` is None and not a string"),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(json.dumps(_line() | change) + "\n", encoding="utf-8")
    with pytest.raises(HistoryError, match=complaint):
        read([path])


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"rules": -1}, "`rules` is -1 and not a count"),
        ({"coverage": 1.5}, "`coverage` is 1.5 and not between 0 and 1"),
        ({"seconds": {"candidate": "long"}}, r"`seconds\.candidate` is 'long' and not a number"),
        ({"seconds": []}, r"`seconds` is \[\] and not an object"),
        ({"silent": [1]}, "`silent` is .* not a list of strings"),
        ({"golden": {"commit": "a"}}, "`reason` is missing"),
    ],
)
def test_so_is_one_of_whose_pipelines_one_is_none(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    line = _line()
    line["pipelines"] = [{**line["pipelines"][0], **change}]  # type: ignore[index]
    path = tmp_path / "history.jsonl"
    path.write_text(f"\n{json.dumps(line)}\n", encoding="utf-8")
    with pytest.raises(HistoryError, match=f"line 2: {complaint}"):
        read([path])


def test_a_file_that_is_not_there_or_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=r"Cannot read the history .*none\.jsonl: No such file"):
        read([tmp_path / "none.jsonl"])
    (tmp_path / "file").touch()
    with pytest.raises(HistoryError, match="Cannot add to the history"):
        append(tmp_path / "file" / "history.jsonl", check(0))


def test_names_that_are_no_text_do_not_spoil_the_file(tmp_path: Path) -> None:
    append(tmp_path / "h", check(0, branch="broken-\udc80"))
    assert read([tmp_path / "h"])[0].branch == "broken-?"
