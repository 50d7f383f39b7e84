"""A golden file is untrusted: whatever is in it, the answer is one clear error that names file and line."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_traincheck import json_lines as decoding
from pytest_traincheck.golden import store
from pytest_traincheck.golden.decode import decode
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.rules.claims import Foreign

# A busy machine is no failure.
unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def refused(data: bytes, line: int) -> str:
    with pytest.raises(GoldenError) as caught:
        decode(data, "g.jsonl")
    message = str(caught.value)
    assert message.startswith(f"g.jsonl, line {line}: ")
    assert message.endswith(".")
    return message


def edited(golden: Golden, line: int, edit: Callable[[dict[str, Any]], object]) -> bytes:
    lines = encode(golden).splitlines()
    content = json.loads(lines[line - 1])
    edit(content)
    lines[line - 1] = json.dumps(content).encode()
    return b"\n".join(lines) + b"\n"


@pytest.mark.fault(area="Goldens", tried="cut at any byte", happens="one error that names file and line, exit status 2")
def test_cut_anywhere(golden: Golden) -> None:
    data = encode(golden)
    for end in range(len(data)):
        with pytest.raises(GoldenError, match=r"^g\.jsonl, line [1-4]: "):
            decode(data[:end], "g.jsonl")


def test_cut_at_a_line_boundary_names_both_counts(golden: Golden) -> None:
    lines = encode(golden).splitlines(keepends=True)
    for kept in range(1, len(lines)):
        message = refused(b"".join(lines[:kept]), kept)
        assert f"ends after {kept - 1} rules but its header announces 3" in message


def test_cut_within_a_line_says_so(golden: Golden) -> None:
    assert "cut short" in refused(encode(golden)[:-10], 4)


@pytest.mark.fault(
    area="Goldens", tried="a newer format with unknown keys", happens="one error: upgrade pytest-traincheck"
)
def test_newer_format_with_unknown_keys(golden: Golden) -> None:
    data = edited(golden, 1, lambda header: header.update(format=3, shiny=True))
    assert "has format 3, and this pytest-traincheck reads up to 2. Upgrade pytest-traincheck" in refused(data, 1)


@pytest.mark.fault(
    area="Goldens",
    tried="a claim edited by hand, with the id it had",
    happens="one error that names file and line, exit status 2",
)
def test_claim_edited_by_hand(golden: Golden) -> None:
    data = encode(golden).replace(b'"value": 0.001', b'"value": 0.01')
    message = refused(data, 3)
    assert "does not belong to this rule" in message
    assert "edited by hand" in message


@pytest.mark.fault(
    area="Goldens", tried="a line twice", happens="one error that names file and line, exit status 2, and the first one"
)
def test_duplicate_line_names_the_first(golden: Golden) -> None:
    lines = encode(golden).splitlines(keepends=True)
    assert "stands on line 2 already" in refused(b"".join([*lines[:3], lines[1]]), 4)


@pytest.mark.fault(
    area="Goldens", tried="markers of a merge conflict", happens="one error: check out either side and refresh"
)
def test_merge_conflict_names_the_marker(golden: Golden) -> None:
    lines = encode(golden).splitlines(keepends=True)
    data = b"".join([*lines[:2], b"<<<<<<< HEAD\n", lines[2], b"=======\n", lines[3], b">>>>>>> branch\n"])
    assert "conflict marker of a merge" in refused(data, 3)


@pytest.mark.fault(
    area="Goldens", tried="a relation that is not installed", happens="kept; its rules are listed as not observable"
)
def test_unknown_relation_is_kept(golden: Golden) -> None:
    rule = golden.invariants[0]
    foreign = type(rule)(
        "Entropy", rule.subject, Foreign({"deep": [{"x": None}]}), (), rule.scope, rule.kind, "Entropy falls.", 3, 1
    )
    data = encode(type(golden)("p", "s", (foreign,)))
    assert decode(data, "g").invariants == (foreign,)


@pytest.mark.fault(
    area="Goldens", tried="wrong types and keys: {says}", happens="one error that names file and line, exit status 2"
)
@pytest.mark.parametrize(
    ("line", "edit", "says"),
    [
        (1, lambda c: c.update(format=True), "`format` is True and not a count"),
        (1, lambda c: c.pop("format"), "not the header of a golden file"),
        (1, lambda c: c.update(format=0), "never existed"),
        (1, lambda c: c.pop("spec"), "`spec` is missing"),
        (1, lambda c: c.update(extra=1), "'extra' is not a key"),
        (1, lambda c: c.update(ignores_seed=False), "`ignores_seed` is False and not `true`"),
        (1, lambda c: c.update(extensions={"paperlib.f": 1}), "`extensions` holds something that is not a string"),
        (1, lambda c: c.update(arguments={"GPT": ["x", 1]}), "`arguments` does not give a list of names"),
        (1, lambda c: c.update(seeds=[0.5]), "not a list of integers"),
        (1, lambda c: c.update(invariants=-3), "`invariants` is -3"),
        (1, lambda c: c.update(models={"GPT": {"w": [-1]}}), "does not give a shape"),
        (1, lambda c: c.update(environment={"torch": 2}), "not a string"),
        (1, lambda c: c.update(optimizers={"AdamW": 2}), "not an object"),
        (2, lambda c: c.update(subject=None), "`subject` is None and not a string"),
        (2, lambda c: c.update(claim=[]), "`claim` is [] and not an object"),
        (2, lambda c: c.update(scope="global"), "must be one of transferable, pinned"),
        (2, lambda c: c.update(when={}), "not a list"),
        (2, lambda c: c.update(when=[{"field": "stage"}]), "not a condition"),
        (2, lambda c: c.update(when=[{"field": "stage", "in": [1]}]), "does not list strings"),
        (2, lambda c: c.update(when=[{"field": 1, "in": ["train"]}]), "does not name its field by a string"),
        (2, lambda c: c.update(when=[{"field": "root", "same_as": ["child"]}]), "does not name its field by a string"),
        (2, lambda c: c.update(when=[{"field": "root", "exists": 1}]), "not a condition"),
        (2, lambda c: c.update(when=[{"except": []}]), "not a condition"),
        (2, lambda c: c.update(when=[{"except": [{"field": "root", "exists": True}]}]), "not a condition"),
        (2, lambda c: c.update(when=[{"except": [{"except": []}]}]), "not a condition"),
        (2, lambda c: c.update(support={"examples": 1}), "`runs` is missing"),
        (2, lambda c: c.update(id=7), "`id` is 7 and not a string"),
        (2, lambda c: c.update(id="x" * 1000), "edited by hand"),
    ],
)
def test_wrong_types_and_keys(golden: Golden, line: int, edit: Callable[[dict[str, Any]], object], says: str) -> None:
    assert says in refused(edited(golden, line, edit), line)


@pytest.mark.fault(
    area="Goldens", tried="a line that is no rule: {id}", happens="one error that names file and line, exit status 2"
)
@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"", "not valid JSON"),
        (b"__import__('os').system('true')", "not valid JSON"),
        (b"[1, 2]", "and not an object"),
        (b'"text"', "and not an object"),
        (b"\xff\xfe{}", "not valid JSON"),
        (b'{"a": NaN}', "NaN is not a finite number"),
        (b'{"a": -Infinity}', "-Infinity is not a finite number"),
        (b'{"a": 1e999}', "1e999 is not a finite number"),
        (b'{"a": 1, "a": 2}', "a key stands twice"),
        (b'{"a": "\\ud800"}', "not valid JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "not valid JSON"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a": ' * 100_000, "nested deeper"),
        (b'"' + b'\\"' * 100_000, "not valid JSON"),
    ],
)
def test_lines_that_are_no_rule(golden: Golden, line: bytes, says: str) -> None:
    lines = encode(golden).splitlines()
    lines[2] = line
    assert says in refused(b"\n".join(lines) + b"\n", 3)


def test_brackets_inside_strings_are_not_nesting(golden: Golden) -> None:
    rule = golden.invariants[0]
    data = edited(golden, 4, lambda content: content.update(sentence='[{"' * 200))
    assert [item.sentence for item in decode(data, "g").invariants if item.subject == rule.subject] == ['[{"' * 200]


@pytest.mark.fault(
    area="Size",
    tried="a golden of more than 64 MiB, or a line of more than 8 MiB",
    happens="one error that names the limit",
)
def test_huge_line_and_huge_file(golden: Golden, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "LINE_LIMIT", 2_000)
    assert "the limit is 2000" in refused(edited(golden, 3, lambda content: content.update(sentence="x" * 2_000)), 3)
    monkeypatch.setattr(store, "SIZE_LIMIT", 100)
    path = tmp_path / "g.jsonl"
    path.write_bytes(encode(golden))
    with pytest.raises(GoldenError, match="larger than 100 bytes"):
        store.read(path)
    with pytest.raises(GoldenError, match="the limit is 100"):
        store.write(tmp_path / "other.jsonl", golden)


@pytest.mark.fault(area="Goldens", tried="noise", happens="one error that names file and line, exit status 2")
@unhurried
@given(st.binary(max_size=300))
def test_noise(data: bytes) -> None:
    with pytest.raises(GoldenError):
        decode(data, "g.jsonl")


@pytest.mark.fault(area="Goldens", tried="one byte changed anywhere", happens="read, or one error; no traceback")
@unhurried
@given(st.data())
def test_one_changed_byte_never_escapes(data: st.DataObject) -> None:
    golden = Golden("p", "s", ())
    content = bytearray(encode(golden))
    content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(GoldenError):
        decode(bytes(content), "g.jsonl")


@pytest.mark.fault(area="Goldens", tried="missing, a directory, a pipe", happens="one error; a pipe is not opened")
def test_missing_file_directory_and_pipe(tmp_path: Path) -> None:
    with pytest.raises(GoldenError, match=r"There is no golden at .*Run `traincheck refresh`"):
        store.read(tmp_path / "missing.jsonl")
    with pytest.raises(GoldenError, match="is not a file"):
        store.read(tmp_path)
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(GoldenError, match="is not a file"):
        store.read(tmp_path / "pipe.jsonl")


@pytest.mark.fault(
    area="Names and paths",
    tried="a pipeline called `{id}`, as a golden file",
    happens="one error: rename it; nothing outside the store is touched",
)
@pytest.mark.parametrize("name", ["", "..", "../etc", "a/b", "a\\b", ".hidden", "a\0b"])
def test_names_stay_inside_the_store(tmp_path: Path, name: str) -> None:
    with pytest.raises(GoldenError, match="Rename the pipeline"):
        store.golden_path(tmp_path, name)
