"""A pipeline for a script: its command with few steps and small sizes, from the options that it has."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from pytest_traincheck.scripts.model import Option, Script
from pytest_traincheck.scripts.roles import Role, is_file, role_of

STEPS, EPOCHS = 8, 2
_BATCH, _WORKERS, _SAMPLES = 8, 2, 64
"""Sizes above these are made so small."""
_LEFT = 16
"""A batch of this size is left as it is."""
_TMP = "{tmp}"
_ASKED = "..."
"""Stands for what only the user knows."""
_DULL = frozenset({"train", "main", "run", "trainer", "__main__", "cli", "training", "script", "start"})
_PLACES = frozenset({"src", "scripts", "script", "tools", "bin", "code", "examples", "projects", "lib"})
_PLAIN = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_UNUSABLE = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True)
class Proposal:
    """What would be configured, and the reasons that a person may want to know.

    `asked` are options without which the script does not start, and whose value nobody can guess.
    """

    name: str
    run: str
    seed_arg: str | None = None
    steps: int | None = None
    link: tuple[str, ...] = ()
    asked: tuple[Option, ...] = ()
    length: str = ""
    """The option that says how long it trains, as it is typed; empty without one."""
    script: Script | None = None

    @property
    def seed_by(self) -> str | None:
        """`probe` where the script takes no seed."""
        return None if self.seed_arg is not None else "probe"


def propose(script: Script, name: str, more: tuple[str, ...] = ()) -> Proposal:
    """The pipeline for a script, with `more` arguments of the user's, which come before ours.

    Required options that have no value to propose stand as `...` in its command.
    """
    typed = {word.partition("=")[0].lstrip("+") for word in more}
    settled = {option.name for option, _ in script.settled}
    words = [script.words]
    asked: list[Option] = []
    lengths: dict[Role, str] = {}
    seed = None
    for option in script.options:
        role = role_of(option)
        if option.name in settled or option.spelled.rstrip("=") in typed:
            continue
        if role is Role.SEED and option.spelled:
            seed = seed or option
            continue
        if not option.spelled and more:
            # An argument without a name has its place among those of the user.
            continue
        value = _value(option, role)
        if value is None and option.required:
            value = option.choices[0] if option.choices else _ASKED
            asked += [] if option.choices else [option]
        if value is not None:
            words.append(option.with_value(value))
            lengths.setdefault(role, words[-1])
    for option, value in script.settled:
        if option.spelled.rstrip("=").lstrip("+") in typed:
            continue
        words.append(option.with_value(value))
        lengths.setdefault(role_of(option), words[-1])
    words += [typed_word(word) for word in more]
    return Proposal(
        name,
        " ".join(words),
        seed.with_value("{seed}") if seed is not None else None,
        asked=tuple(asked),
        length=lengths.get(Role.STEPS) or lengths.get(Role.EPOCHS, ""),
        script=script,
    )


def _value(option: Option, role: Role) -> str | None:
    """What to give for it; None to leave it alone."""
    if role is Role.STEPS:
        return str(STEPS)
    if role is Role.EPOCHS:
        return str(EPOCHS)
    if role is Role.BATCH:
        return None if _at_most(option, _LEFT) else str(_BATCH)
    if role is Role.WORKERS:
        return None if _at_most(option, _WORKERS) or option.default is None else str(_WORKERS)
    if role is Role.SAMPLES:
        return str(_SAMPLES)
    if role is Role.OUTPUT and "${" not in str(option.default):
        return in_tmp(option)
    return None


def typed_word(word: str) -> str:
    """A word as it is typed. A shell would take `{tmp}` as it is, and so do we."""
    return word if _PLAIN.fullmatch(word) else shlex.quote(word)


def _at_most(option: Option, most: int) -> bool:
    return isinstance(option.default, (int, float)) and 0 <= option.default <= most


def in_tmp(option: Option) -> str:
    """A place in the directory that is removed afterwards, for what an option says where to write."""
    return f"{_TMP}/{posixpath.basename(str(option.default))}" if is_file(option) else _TMP


def given(command: str, script: Script | None, name: str) -> Proposal:
    """The pipeline for a command that the user typed: nothing is added to it but how it takes its seed."""
    seed = None
    for option in script.options if script is not None else ():
        if role_of(option) is Role.SEED and option.spelled and option.spelled not in command:
            seed = option.with_value("{seed}")
            break
    return Proposal(name, command, seed, script=script)


def redirected(proposal: Proposal, created: tuple[str, ...]) -> Proposal | None:
    """The pipeline with the options set that say where these paths are written; None where there is no such option.

    Which they are, their defaults tell: `--save model.pt`, and `model.pt` was created.
    """
    script = proposal.script
    words = [
        option.with_value(in_tmp(option))
        for option in (script.options if script is not None else ())
        if isinstance(option.default, str) and option.default.strip("./") and _holds(option.default, created)
        if option.spelled and option.with_value("").strip() not in shlex.split(proposal.run)
    ]
    return replace(proposal, run=" ".join([proposal.run, *words])) if words else None


def _holds(default: str, created: tuple[str, ...]) -> bool:
    place = posixpath.normpath(default)
    return any(path.rstrip("/") == place or path.startswith(f"{place}/") for path in created)


def writes(proposal: Proposal) -> Iterator[str]:
    """Options that may say where the script writes, and that the command leaves alone, as they are typed."""
    for option in proposal.script.options if proposal.script is not None else ():
        if role_of(option) is Role.OUTPUT and option.spelled not in proposal.run:
            yield option.with_value(in_tmp(option))


def script_in(command: str, scripts: Mapping[str, Script]) -> Script | None:
    """The script that a command starts, among those that were found by path."""
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    by_module = {script.path.removesuffix(".py").replace("/", "."): script for script in scripts.values()}
    for place, word in enumerate(words):
        path = posixpath.normpath(word)
        if path in scripts:
            return scripts[path]
        if place and words[place - 1] in ("-m", "--module") and word in by_module:
            return by_module[word]
    return None


def name_for(script: Script | None, command: str, taken: frozenset[str]) -> str:
    """A name for the pipeline that nothing else has: from the script's, or from where it lies."""
    path = script.path if script is not None else _first_file(command)
    parts = [part for part in path.removesuffix(".py").split("/") if part]
    stem = parts[-1] if parts else "train"
    folders = [part for part in parts[:-1] if part not in _PLACES]
    wanted = folders[-1] if stem.lower() in _DULL and folders else stem
    wanted = _UNUSABLE.sub("_", wanted).strip("_.-")[:60] or "train"
    known = {name.casefold() for name in taken}
    number, found = 2, wanted
    while found.casefold() in known:
        found, number = f"{wanted}_{number}", number + 1
    return found


def _first_file(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    return next((word for word in words if word.endswith((".py", ".sh"))), "train")
