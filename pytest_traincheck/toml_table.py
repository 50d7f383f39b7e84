"""One table of the configuration, whose values are read by type; what is wrong names the file and the key."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from pytest_traincheck.input_error import InputError
from pytest_traincheck.printable import printable_line


class ConfigError(InputError, ValueError):
    """The configuration cannot be used. The text names the file, the key and what to write instead."""


@dataclass(frozen=True)
class Table:
    """One TOML table with where it stands, so that every complaint can name its file and key."""

    source: Path
    prefix: str
    content: Mapping[str, Any]

    def error(self, key: str, what: str, remedy: str) -> ConfigError:
        name = printable_line(f"{self.prefix}{key}")
        return ConfigError(f"{self.source}: `{name}` {what}. {remedy}.")

    def allow(self, known: Iterable[str]) -> None:
        names = tuple(known)
        for key in self.content:
            if key not in names:
                raise self.error(key, f"is not a known key{suggest(key, names)}", f"Known here: {', '.join(names)}")

    def child(self, key: str) -> Table:
        value = self.content.get(key, {})
        if not isinstance(value, Mapping):
            raise self.error(key, "must be a table", f"Write [...{self.prefix}{key}] and its keys below")
        return Table(self.source, f"{self.prefix}{key}.", value)

    def optional_text(self, key: str) -> str | None:
        return self.text(key, "") if key in self.content else None

    def text(self, key: str, default: str) -> str:
        value = self.content.get(key, default)
        if not isinstance(value, str):
            raise self.error(key, f"is {value!r}, not a string", "Put it in quotes")
        if key in self.content and not value.strip():
            raise self.error(key, "is empty", "Give it a value or delete the line")
        if "\0" in value:
            raise self.error(key, "holds a NUL character", "Take it out")
        return value

    def interpreter(self, key: str) -> str | None:
        """A path is relative to this file; symbolic links are kept, since a virtual environment is one."""
        value = self.optional_text(key)
        if value is None or "/" not in value:
            return value
        try:
            return str(self.source.parent / Path(value).expanduser())
        except RuntimeError as error:
            raise self.error(key, f"is {value!r}, in the home of nobody", "Write the path in full") from error

    def switch(self, key: str) -> bool:
        value = self.content.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, f"is {value!r}, neither true nor false", f"Write {key} = true or {key} = false")
        return value

    def texts(self, key: str) -> list[str]:
        value = self.content.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item.strip() for item in value):
            raise self.error(key, f"is {value!r}", f'Write an array of strings: {key} = ["--batch-size 16"]')
        return value

    def path(self, key: str, default: str) -> str:
        """A relative path that stays below the configuration's directory: each side is mapped into its own tree."""
        value = self.text(key, default)
        path = PurePosixPath(value)
        depth = 0
        for part in path.parts:
            depth += -1 if part == ".." else 1
            if path.is_absolute() or depth < 0:
                raise self.error(
                    key, f"is {value!r}, outside {self.source.parent}", "Write a path below the directory of this file"
                )
        return str(path)


def suggest(key: str, known: Iterable[str]) -> str:
    """What to add to a complaint about a word that is not known: the nearest known one, or nothing."""
    near = difflib.get_close_matches(key.lower().replace("-", "_"), list(known), n=1, cutoff=0.5)
    return f" (did you mean `{near[0]}`?)" if near else ""
