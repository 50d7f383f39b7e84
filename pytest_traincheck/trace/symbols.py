"""Reads `symbols.jsonl`: the tables that the ids in rows point into."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pytest_traincheck.trace.errors import damaged
from pytest_traincheck.trace.format import SYMBOL_KINDS
from pytest_traincheck.trace.schema import references, wrong_symbol

Symbol = Mapping[str, Any]
Tables = Mapping[str, Sequence[Symbol]]


def parse_symbols(data: bytes, path: Path, *, whole: bool) -> Tables:
    """The symbols by kind and id. Entry 0 of every table stands for "none", so that ids index directly.

    The process was killed unless the trace is `whole`: then a last line that was cut short is passed over, and a table
    ends before the first number that is missing. Zeros at the end are what the file was grown by ahead of its lines.

    Raises:
        TraceError: a line is none of this format, a number stands twice or is missing, or a symbol refers to one that
            is not there.
    """
    found: dict[str, dict[int, Symbol]] = {kind: {} for kind in SYMBOL_KINDS}
    lines = data.rstrip(b"\0").split(b"\n")
    last = lines.pop()
    if last and whole:
        raise damaged(path, f"line {len(lines) + 1} has no end, though the process ended in an orderly way")
    for number, line in enumerate(lines, start=1):
        symbol = _parse(line, number, path)
        kind = symbol["k"]
        if kind not in found:
            continue  # A newer probe may say more than is read here.
        identity = symbol.get("i")
        if type(identity) is not int or identity < 1 or identity in found[kind]:
            raise damaged(path, f"line {number} is not number {len(found[kind]) + 1} of `{kind}`")
        if wrong := wrong_symbol(kind, symbol):
            raise damaged(path, f"line {number}: {wrong}")
        found[kind][identity] = symbol
    tables = {kind: _table(kind, symbols, path, whole=whole) for kind, symbols in found.items()}
    _check_references(tables, path)
    return tables


def _parse(line: bytes, number: int, path: Path) -> Symbol:
    try:
        symbol = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"line {number} is no JSON ({error})") from error
    if not isinstance(symbol, dict) or not isinstance(symbol.get("k"), str):
        raise damaged(path, f"line {number} is no symbol of this format")
    return symbol


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _table(kind: str, symbols: Mapping[int, Symbol], path: Path, *, whole: bool) -> Sequence[Symbol]:
    """Entries up to the first number that is missing: consecutive numbers bound a table by the length of the file."""
    table: list[Symbol] = [{}]
    while (symbol := symbols.get(len(table))) is not None:
        table.append(symbol)
    if whole and len(table) <= len(symbols):
        raise damaged(path, f"there is no number {len(table)} of `{kind}`, and there are higher ones")
    return table


def _check_references(tables: Tables, path: Path) -> None:
    for kind, table in tables.items():
        for symbol in table[1:]:
            for other, highest in references(kind, symbol):
                if highest >= len(tables[other]):
                    raise damaged(
                        path,
                        f"number {symbol['i']} of `{kind}` refers to number {highest} of `{other}`, and there are "
                        f"{len(tables[other]) - 1}",
                    )
