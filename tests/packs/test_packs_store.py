"""Packs on disk: what is written comes back, and whatever else a file holds gets one clear error."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_traincheck.packs import store
from pytest_traincheck.packs.decode import decode
from pytest_traincheck.packs.encode import encode
from pytest_traincheck.packs.errors import PackError
from pytest_traincheck.packs.model import Pack
from pytest_traincheck.rules.claims import Foreign


def refused(data: bytes, line: int) -> str:
    with pytest.raises(PackError) as caught:
        decode(data, "p.jsonl")
    message = str(caught.value)
    assert message.startswith(f"p.jsonl, line {line}: ")
    assert message.endswith(".")
    return message


def edited(pack: Pack, line: int, edit: Callable[[dict[str, Any]], object]) -> bytes:
    lines = encode(pack).splitlines()
    content = json.loads(lines[line - 1])
    edit(content)
    lines[line - 1] = json.dumps(content).encode()
    return b"\n".join(lines) + b"\n"


def test_a_pack_comes_back_as_it_was_in_the_order_of_names(pack: Pack) -> None:
    found = decode(encode(pack), "p.jsonl")
    assert replace(found, rules=()) == replace(pack, rules=())
    assert [rule.id for rule in found.rules] == ["eval-mode-in-training", "gradients-left-over"]
    assert {rule.id: rule for rule in found.rules} == {rule.id: rule for rule in pack.rules}
    assert encode(found) == encode(pack)


def test_mistakes_of_programs_stand_in_the_header_where_there_are_any(pack: Pack) -> None:
    assert b'"mistakes"' not in encode(pack)
    known = replace(pack, mistakes={"gpt": ("gradients-left-over", "a-law"), "gan": ("a-law",)})
    found = decode(encode(known), "p.jsonl")
    assert found.mistakes == {"gan": ("a-law",), "gpt": ("a-law", "gradients-left-over")}
    assert list(found.mistakes) == ["gan", "gpt"]
    message = refused(edited(known, 1, lambda content: content.update(mistakes={"gan": "a-law"})), 1)
    assert "`gan` is 'a-law' and not a list of strings" in message


def test_a_header_and_a_rule_a_line(pack: Pack) -> None:
    header, *rules = [json.loads(line) for line in encode(pack).splitlines()]
    assert (header["pack"], header["rules"], header["laws"], header["habits"]) == ("torch", 2, 1, 1)
    assert list(rules[0])[:3] == ["id", "level", "sentence"]


def test_the_same_bytes_are_not_written_again(pack: Pack, tmp_path: Path) -> None:
    path = tmp_path / "torch.jsonl"
    store.write(path, pack)
    before = path.stat().st_ino
    store.write(path, pack)
    assert path.stat().st_ino == before
    assert store.read(path).programs == pack.programs


@pytest.mark.fault(area="Packs", tried="cut at any byte", happens="one error that names file and line, exit status 2")
def test_cut_anywhere(pack: Pack) -> None:
    data = encode(pack)
    for end in range(0, len(data), 7):
        with pytest.raises(PackError, match=r"^p\.jsonl, line [1-3]: "):
            decode(data[:end], "p.jsonl")


@pytest.mark.fault(
    area="Packs", tried="edited by hand: other types, unknown keys, a name with a path in it, a link that is none",
    happens="one error that names the line and the key, exit status 2",
)  # fmt: skip
@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda rule: rule.update(id="../etc/passwd"), "`id` is '../etc/passwd'"),
        (lambda rule: rule.update(id="x" * 81), "`id` is"),
        (lambda rule: rule.update(level="must"), "`level` is 'must'; it must be one of law, habit"),
        (lambda rule: rule.update(link="javascript:alert(1)"), "which is no web address"),
        (lambda rule: rule.update(why=3), "`why` is 3 and not a string"),
        (lambda rule: rule.update(why="x" * 4001), "`why` has 4001 characters; the limit is 4000"),
        (lambda rule: rule.update(command="rm"), "'command' is not a key of this format"),
        (lambda rule: rule.pop("since"), "`since` is missing"),
        (lambda rule: rule["evidence"].update(at_most=2), "`at_most` is 2 and not a share"),
        (lambda rule: rule["evidence"].update(tried=-1), "`tried` is -1 and not a count"),
        (lambda rule: rule["evidence"].update(breaks=["unknown"]), "`breaks` names a program"),
        (lambda rule: rule.update(when=[{"field": 1, "in": []}]), "does not name its field by a string"),
        (lambda rule: rule.update(when={}), "`when` is {} and not a list"),
    ],
)
def test_a_rule_that_we_would_not_have_written(pack: Pack, edit: Callable[[dict[str, Any]], object], what: str) -> None:
    assert what in refused(edited(pack, 2, edit), 2)


def test_what_is_no_pack_at_all(pack: Pack, tmp_path: Path) -> None:
    assert "the file is empty" in refused(b"", 1)
    assert "not the header of a pack" in refused(b'{"format": 2, "pipeline": "net"}\n', 1)
    assert "the file has format 9" in refused(edited(pack, 1, lambda header: header.update(format=9)), 1)
    assert "never existed" in refused(edited(pack, 1, lambda header: header.update(format=0)), 1)
    assert "conflict marker" in refused(b"<<<<<<< HEAD\n", 1)
    assert "its header announces 3" in refused(edited(pack, 1, lambda header: header.update(rules=3)), 3)
    lines = encode(pack).splitlines()
    assert "stands on an earlier line" in refused(b"\n".join([*lines, lines[-1]]) + b"\n", 4)
    os.mkfifo(tmp_path / "pipe.jsonl")
    with pytest.raises(PackError, match="is not a file"):
        store.read(tmp_path / "pipe.jsonl")
    with pytest.raises(PackError, match="does not exist"):
        store.read(tmp_path / "none.jsonl")


def test_a_file_that_is_too_large(pack: Pack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.jsonl"
    store.write(path, pack)
    monkeypatch.setattr(store, "SIZE_LIMIT", 100)
    with pytest.raises(PackError, match="larger than 100 bytes, which no pack is"):
        store.read(path)
    with pytest.raises(PackError, match="the limit is 100; it was not written"):
        store.write(path, pack)


def test_a_file_of_the_users_is_not_overwritten(pack: Pack, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    with pytest.raises(PackError, match="is no pack and would be overwritten"):
        store.write(path, pack)
    assert path.read_text() == "mine"


def test_a_claim_that_no_file_can_hold(pack: Pack) -> None:
    rule = pack.rules[0]
    wrong = replace(rule, invariant=replace(rule.invariant, claim=Foreign({"share": float("nan")})))
    with pytest.raises(PackError, match="Cannot store the rule 'gradients-left-over'"):
        encode(replace(pack, rules=(wrong,)))


def test_packs_that_ship_can_be_read() -> None:
    for name in store.shipped():
        pack = store.shipped_pack(name)
        assert pack.name == name
        assert pack.rules
        assert all(rule.why for rule in pack.rules)
    with pytest.raises(PackError, match="There is no pack 'unknown'"):
        store.shipped_pack("unknown")
