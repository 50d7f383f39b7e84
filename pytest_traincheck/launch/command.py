"""From a command line as the user types it to what is executed."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from pytest_traincheck.redaction import redacted

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)
_SHELL = "/bin/sh"
_SHELL_CHARACTERS = frozenset("|&;<>()$`\n*?[~")
_INSIDE_DOUBLE_QUOTES = frozenset("$`")
# Words that only a shell understands, so that `exec python train.py` runs as it does when typed.
_SHELL_WORDS = frozenset({".", "cd", "command", "eval", "exec", "export", "set", "ulimit", "umask", "unset"})
_PLAIN_PYTHON = ("python", "python3")
TMP = "{tmp}"
"""In a command: a fresh directory of this run."""


class CommandError(ValueError):
    """A command line that cannot be started. `remedy` says what to write instead."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@dataclass(frozen=True)
class Command:
    """What to execute: the words, and the variables assigned in front of them."""

    argv: tuple[str, ...]
    assignments: dict[str, str] = field(default_factory=dict)
    shell: bool = False


def shell_characters(text: str) -> frozenset[str]:
    """The characters of `text` that a POSIX shell would act upon, quoting considered."""
    found: set[str] = set()
    quote = ""
    position = 0
    while position < len(text):
        character = text[position]
        if character == "\\" and quote != "'":
            following = text[position + 1 : position + 2]
            # A shell takes these backslashes away, where `shlex` keeps them or the end of the line.
            if following == "\n" or (quote and following in _INSIDE_DOUBLE_QUOTES):
                found.update(following)
            position += 2
            continue
        if quote:
            if character == quote:
                quote = ""
            elif quote == '"' and character in _INSIDE_DOUBLE_QUOTES:
                found.add(character)
        elif character in "'\"":
            quote = character
        elif character in _SHELL_CHARACTERS:
            found.add(character)
        position += 1
    return frozenset(found)


def uses_tmp(*texts: str | None) -> bool:
    """Whether any of these texts asks for a temporary directory."""
    return any(text is not None and TMP in text for text in texts)


def parse_command(text: str, arguments: str = "", tmp: Path | None = None) -> Command:
    """Split a command line, with `arguments` added at its end, and put the directory `tmp` where it says `{tmp}`.

    Whatever characters that path has, it stays part of one word. Without `tmp` the text `{tmp}` stays.

    Without operators no shell is involved. With them the line goes to `/bin/sh -c` as it stands: it is the user's own
    command, and a shell is what they typed it for.

    Raises `CommandError` for a line that is empty, badly quoted, or to whose end nothing can be added.
    """
    if "\0" in text or "\0" in arguments:
        raise CommandError("the command holds a NUL character", "take it out")
    added = _split(arguments)
    if tmp is not None:
        added = [word.replace(TMP, str(tmp)) for word in added]
    special = shell_characters(text.strip())
    if special:
        if added and special & {"|", "&"} and _ends_elsewhere(text):
            raise CommandError(
                f"arguments ({shlex.join(added)}) cannot be added to `{text}`: they would go to its last part only",
                "put the line into a script that passes its arguments on, or pass the seed with `seed_env`",
            )
        _split(text)
        typed = text.strip() if tmp is None else _into_shell_line(text.strip(), str(tmp))
        line = f"{typed} {shlex.join(added)}".strip()
        return Command((_SHELL, "-c", line), shell=True)
    words = _split(text)
    if tmp is not None:
        words = [word.replace(TMP, str(tmp)) for word in words]
    assignments: dict[str, str] = {}
    while words and _ASSIGNMENT.fullmatch(words[0]):
        name, _, value = words.pop(0).partition("=")
        assignments[name] = value
    if not words:
        raise CommandError(f"the command `{text}` is empty", 'write one, for example "python train.py --steps 8"')
    if words[0] in _SHELL_WORDS:
        return Command((_SHELL, "-c", shlex.join([*words, *added])), assignments, shell=True)
    return Command((*words, *added), assignments)


def _into_shell_line(text: str, tmp: str) -> str:
    """`{tmp}` replaced as the quotes around it demand, so that a shell takes the path as it is."""
    quoted = {
        "": shlex.quote(tmp),
        "'": tmp.replace("'", "'\\''"),
        '"': re.sub(r'([\\"$`])', r"\\\1", tmp),
    }
    parts = []
    quote = ""
    position = 0
    while position < len(text):
        character = text[position]
        if text.startswith(TMP, position):
            parts.append(quoted[quote])
            position += len(TMP)
            continue
        if character == "\\" and quote != "'":
            parts.append(text[position : position + 2])
            position += 2
            continue
        if character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        parts.append(character)
        position += 1
    return "".join(parts)


def _ends_elsewhere(text: str) -> bool:
    """Whether the last command of the line is fed by a pipe or follows one in the background."""
    bare = re.sub(r"\\.|'[^']*'|\"(?:\\.|[^\"])*\"", "", text, flags=re.DOTALL)
    bare = re.sub(r"&&|\|\||\d*>&\d*|&>", "", bare)
    return "|" in bare or "&" in bare


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise CommandError(
            f"the command `{redacted(text)}` cannot be split into words ({error})", "balance its quotes"
        ) from error


def resolve_interpreter(python: str | None, search_path: str | None = None) -> Path:
    """The interpreter of a side: an absolute path whose symbolic links are kept, since a virtual environment is one.

    None, `python` and `python3` mean the interpreter that runs us. Where that has no torch, as in the environment that
    `uv tool install` and `pipx` make for a tool, they mean what they mean at the user's prompt.
    Raises `CommandError` when there is no such program.
    """
    if python is None or python in _PLAIN_PYTHON:
        theirs = None if _has_torch() else shutil.which(python or "python", path=search_path)
        return Path(theirs or sys.executable).absolute()
    found = shutil.which(python, path=search_path)
    if found is None and Path(python).is_dir():
        raise CommandError(
            f"the interpreter `{python}` is a directory",
            f"give the path of the program, for example {python}/bin/python",
        )
    if found is None:
        raise CommandError(
            f"the interpreter `{python}` does not exist or is not executable",
            "give the path of a Python interpreter, for example .venv/bin/python",
        )
    return Path(found).absolute()


@functools.cache
def _has_torch() -> bool:
    return importlib.util.find_spec("torch") is not None


def resolve_program(name: str, interpreter: Path, cwd: Path, search_path: str) -> str:
    """The absolute path of a command's first word.

    Raises `CommandError` when nothing of that name can be executed.
    """
    if name in _PLAIN_PYTHON:
        return str(interpreter)
    if "/" in name:
        path = cwd / Path(name)
        if path.is_file() and os.access(path, os.X_OK):
            return str(path)
        if path.is_file():
            raise CommandError(f"`{name}` is not executable", f"run `chmod +x {name}`, or write `sh {name}`")
        raise CommandError(f"`{name}` does not exist in {cwd}", "check the command's first word and its directory")
    found = shutil.which(name, path=search_path)
    if found is None:
        raise CommandError(
            f"no program `{name}` on the path", f"check the spelling, or install it beside {interpreter}"
        )
    return found


def ensure_python_on_path(interpreter: Path, directory: Path) -> tuple[Path, ...]:
    """Directories that go first on PATH, so that every `python` below a script is the side's interpreter.

    The interpreter's own directory is enough where its `python` and `python3` are that interpreter; otherwise
    two one-line programs are written to `directory`. They are no symbolic links: an interpreter finds its virtual
    environment by the path it was called with.
    """
    beside = interpreter.parent
    if all(_same_program(beside / name, interpreter) for name in _PLAIN_PYTHON):
        return (beside,)
    directory.mkdir(parents=True, exist_ok=True)
    for name in _PLAIN_PYTHON:
        program = directory / name
        program.write_text(
            f'#!/bin/sh\nexec {shlex.quote(str(interpreter))} "$@"\n', encoding="utf-8", errors="surrogateescape"
        )
        program.chmod(0o755)
    return (directory, beside)


def _same_program(path: Path, interpreter: Path) -> bool:
    try:
        return path.samefile(interpreter)
    except OSError:
        return False
