"""What is known of the user's code that ran: it is in every trace, beside what was observed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Ran:
    """Traces that a run has left of the user's code. What left none may have run all the same."""

    lines: Mapping[str, frozenset[int]]
    """By file, the lines at which something observed was called, from 1."""
    functions: frozenset[str]
    """Names of the functions that hold these lines."""
    classes: frozenset[str]
    """Names of the classes of all models, modules and optimizers that were seen, without where they are defined."""
    imported: frozenset[str]
    """Files that were imported or run as a script. Other files may have been read."""
    words: frozenset[str]
    """Words of the command lines."""

    def with_paths(self, named: Callable[[Path], str]) -> Ran:
        """The same with other names for files, which are absolute paths at first."""
        lines: dict[str, frozenset[int]] = {}
        for path, numbers in self.lines.items():
            name = named(Path(path))
            lines[name] = lines.get(name, frozenset()) | numbers
        return replace(self, lines=lines, imported=frozenset(named(Path(path)) for path in self.imported))


def joined(parts: Sequence[Ran | None]) -> Ran | None:
    """What any of several runs has left; None where that is not known of one of them."""
    known = [part for part in parts if part is not None]
    if not known or len(known) < len(parts):
        return None
    paths = {path for part in known for path in part.lines}
    return Ran(
        {path: frozenset().union(*(part.lines.get(path, frozenset()) for part in known)) for path in paths},
        frozenset().union(*(part.functions for part in known)),
        frozenset().union(*(part.classes for part in known)),
        frozenset().union(*(part.imported for part in known)),
        frozenset().union(*(part.words for part in known)),
    )


def ran_of(run: Run) -> Ran | None:
    """What left a trace in any process of a run; None where one did not end in an orderly way: nobody knows what it
    imported. What the training program itself has forked or spawned need not, since pools are ended by a signal.
    """
    processes = (*run.processes, *run.others)
    programs = [process.raw.meta.get("argv") for process in run.processes]
    if any(not other.raw.meta.get("finished") and other.raw.meta.get("argv") not in programs for other in run.others):
        return None
    lines: dict[str, set[int]] = {}
    functions: set[str] = set()
    classes: set[str] = set()
    for process in (*processes, *run.workers):
        for path, line, function in _places(process):
            lines.setdefault(path, set()).add(line)
            functions.add(function.rpartition(".")[2])
        for kind in ("root", "mod", "opt"):
            classes.update(str(item.get("class", "")).rpartition(".")[2] for item in process.raw.symbols[kind][1:])
    metas = [process.raw.meta for process in (*processes, *run.workers)]
    return Ran(
        {path: frozenset(numbers) for path, numbers in lines.items()},
        frozenset(functions),
        frozenset(classes),
        frozenset(lines) | {str(path) for meta in metas for path in meta.get("modules") or ()},
        words_of(str(word) for meta in metas for word in meta.get("argv") or ()),
    )


def words_of(texts: Iterable[str]) -> frozenset[str]:
    """The words in some texts, as an identifier is one."""
    return frozenset(word for text in texts for word in _WORD.findall(text))


def _places(process: Process) -> Iterable[tuple[str, int, str]]:
    start = Path(str(process.raw.meta.get("cwd", "")))
    for item in process.raw.symbols["src"][1:]:
        yield str(start / str(item.get("file", ""))), int(item.get("line", 0)), str(item.get("function", ""))
