"""Where the configuration stands: in `pyproject.toml` below `[tool.traincheck]`, or in `traincheck.toml`."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_traincheck.toml_table import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PYPROJECT = "pyproject.toml"
STANDALONE = "traincheck.toml"

EXAMPLE = """\
[tool.traincheck.pipelines.my_model]
run = "python train.py --steps 8"
seed_arg = "--seed {seed}"
seeds = [0, 1, 2]
timeout = 300
"""

SIZE_LIMIT = 2**20
"""Bytes of the largest file that is read."""

_PIPELINE_HEADER = re.compile(
    r"^\s*\[\s*(?:tool\s*\.\s*traincheck\s*\.\s*)?pipelines\s*\.\s*([^\]\[]+?)\s*\]\s*(?:#.*)?$"
)


def tables_in(directory: Path) -> list[tuple[Path, Mapping[str, Any]]]:
    """The configuration files of a directory, each with what it says of traincheck. Raises `ConfigError`."""
    found: list[tuple[Path, Mapping[str, Any]]] = []
    for name in (STANDALONE, PYPROJECT):
        source = directory / name
        if source.is_file():
            table = table_of(source, parse(source), required=False)
            if table is not None:
                found.append((source, table))
    return found


def parse(source: Path) -> dict[str, Any]:
    """What a file holds. Raises `ConfigError`."""
    try:
        # A pipe or a device would block or never end, so look before opening.
        if source.exists() and not source.is_file():
            raise ConfigError(f"{source}: is not a file. Give the path of a {STANDALONE} or {PYPROJECT}.")
        with source.open("rb") as file:
            data = file.read(SIZE_LIMIT + 1)
        if len(data) > SIZE_LIMIT:
            raise ConfigError(f"{source}: is larger than {SIZE_LIMIT} bytes, which no configuration is. Shorten it.")
        # Some editors begin a file with a byte order mark.
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{source}: cannot be read ({error.strerror or error}). Check the path.") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: is not UTF-8 (byte {error.start}). Save it as UTF-8.") from error
    return parse_text(source, text)


def parse_text(source: Path, text: str) -> dict[str, Any]:
    """What a file with this text would hold. Raises `ConfigError`."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        twice = _declared_twice(text)
        if twice is not None:
            name, first, second = twice
            raise ConfigError(
                f"{source}: two pipelines are called `{name}` (lines {first} and {second}). Rename one of them."
            ) from error
        raise ConfigError(f"{source}: is not valid TOML: {error}. Correct that line.") from error
    except (ValueError, RecursionError) as error:
        # Python reads no number of more than 4300 digits, and the parser recurses.
        raise ConfigError(
            f"{source}: is not valid TOML: a number is too long or arrays are nested too deep. Shorten them."
        ) from error


def _declared_twice(text: str) -> tuple[str, int, int] | None:
    """Name and the two line numbers, since the TOML parser's own message names neither file nor pipeline."""
    seen: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        match = _PIPELINE_HEADER.match(line)
        if match is None:
            continue
        name = match.group(1).strip("\"'")
        if name in seen:
            return name, seen[name], number
        seen[name] = number
    return None


def table_of(source: Path, document: Mapping[str, Any], *, required: bool) -> Mapping[str, Any] | None:
    """The traincheck table of a parsed file: below `tool.traincheck`, or the whole of a standalone file."""
    tool = document.get("tool")
    inside = tool.get("traincheck") if isinstance(tool, Mapping) else None
    if inside is not None:
        if not isinstance(inside, Mapping):
            raise ConfigError(f"{source}: `tool.traincheck` must be a table. Write [tool.traincheck].")
        return inside
    if source.name != PYPROJECT:
        return document
    if required:
        raise ConfigError(f"{source}: has no [tool.traincheck] table. Write into it:\n\n{EXAMPLE}")
    return None
