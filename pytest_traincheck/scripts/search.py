"""Which files of a repository are programs that train, the likeliest first."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_traincheck.frameworks.built_in import command_lines
from pytest_traincheck.frameworks.description import CommandLine
from pytest_traincheck.scripts import keys, parsers
from pytest_traincheck.scripts.model import Evidence, Option, Script, Style
from pytest_traincheck.scripts.ranks import only_with_ranks
from pytest_traincheck.scripts.source import Source, called, dotted, literal, outside_functions, read

MOST_FILES = 4000
_IMPORTS = 40
"""Files that are followed from one script."""
_SKIPPED = re.compile(
    r"(^|/)(\.[^/]+|tests?|testing|docs?|venv|env|node_modules|site-packages|build|dist|__pycache__)/|"
    r"(^|/)(test_[^/]*|[^/]*_test|conftest|setup|noxfile|fabfile|hubconf)\.py$"
)
_LIKELY = re.compile(r"(^|[_\W])(train|training|trainer|pretrain|finetune|fine_tune|fit|sft)(?=$|[_\W\d])", re.I)
_PLAIN = re.compile(r"(^|[_\W])(main|run|cli|__main__)(?=$|[_\W])", re.I)
_OTHER = re.compile(
    r"(^|[_\W])(eval|evaluate|test|infer|inference|predict|generate|sample|export|convert|demo|plot|bench|benchmark|"
    r"preprocess|prepare|download|visuali[sz]e|serve|profile|debug)(?=$|[_\W])",
    re.I,
)
_SEEDS = ("manual_seed", "seed_everything", "set_seed", "seed")
_MODE = "train"
"""What a trainer of one library does, and the mode of any model: `model.train()`."""
_PATH = re.compile(r"[\w.~-]+(?:/[\w.~-]+)*/?")


@dataclass
class Tree:
    """The Python files of a repository, read when they are asked for."""

    root: Path
    paths: frozenset[str]
    _read: dict[str, Source | None] = field(default_factory=dict)

    def source(self, path: str) -> Source | None:
        """The file, or None for one that cannot be read."""
        if path not in self._read:
            self._read[path] = read(self.root, path)
        return self._read[path]

    def with_imports(self, source: Source) -> list[Source]:
        """The file and those of the repository that it imports, and they, nearest first."""
        found = {source.path: source}
        waiting = [source]
        while waiting and len(found) < _IMPORTS:
            for path in _imported_paths(waiting.pop(0), source.path, self.paths):
                other = self.source(path) if path not in found else None
                if other is not None:
                    found[path] = other
                    waiting.append(other)
        return list(found.values())


def _imported_paths(source: Source, script: str, paths: frozenset[str]) -> Iterator[str]:
    """The files that a file imports: from where the script lies, from the top, from `src`, or beside itself."""
    here = posixpath.dirname(source.path)
    for name in source.imported.values():
        dots = len(name) - len(name.lstrip("."))
        steps = name[dots:].split(".")
        if dots:
            roots = [posixpath.normpath(posixpath.join(here, *[".."] * (dots - 1))).removeprefix(".")]
        else:
            roots = [posixpath.dirname(script), "", "src", here]
        for folder in dict.fromkeys(roots):
            for count in range(len(steps), 0, -1):
                stem = posixpath.join(folder, *steps[:count])
                path = next((item for item in (f"{stem}.py", f"{stem}/__init__.py") if item in paths), None)
                if path is not None:
                    yield path
                    break


def find(root: Path, paths: Sequence[str]) -> list[Script]:
    """The programs among these files, relative to `root`, that train, the likeliest first."""
    python = frozenset(path for path in paths if path.endswith(".py"))
    tree = Tree(root, python)
    looked_at = sorted((path for path in python if not _SKIPPED.search(path)), key=lambda path: (path.count("/"), path))
    found = (describe(tree, path) for path in looked_at[:MOST_FILES])
    return sorted((script for script in found if script is not None), key=_likelihood)


def describe(tree: Tree, path: str) -> Script | None:
    """What is known of one file; None for one that is no program, or does not train."""
    source = tree.source(path)
    if source is None:
        return None
    mark = keys.hydra_main(source)
    started = source.main is not None or mark is not None or posixpath.basename(path) == "__main__.py"
    evidence = next(_evidence([source]), None)
    if not started and (evidence is None or not _trains_at_once(source)):
        return None
    sources = tree.with_imports(source)
    if evidence is None:
        evidence = next(_evidence(sources), None)
        if evidence is None:
            return None
        evidence = Evidence(evidence.what, evidence.place, own=False)
    style, options, settled, first = _settings(tree.root, sources, mark)
    return Script(
        path,
        evidence,
        style,
        options,
        tuple(item.path for item in sources),
        _module(source, tree.paths),
        only_with_ranks(sources),
        first,
        settled,
        tuple(_constant_seeds(source)),
        tuple(dict.fromkeys(text for item in sources for text in _texts(item))),
    )


def _likelihood(script: Script) -> tuple[object, ...]:
    name = posixpath.basename(script.path).removesuffix(".py")
    where = script.path.removesuffix(".py")
    if _OTHER.search(name):
        kind = 3
    elif _LIKELY.search(name):
        kind = 0
    elif _PLAIN.search(name) or _LIKELY.search(where):
        kind = 1
    else:
        kind = 2
    return kind, script.path.count("/"), not script.evidence.own, script.path


def _evidence(sources: Sequence[Source]) -> Iterator[Evidence]:
    """What in these files trains: a loop of their own, or the trainer of a library."""
    calls = [(source, call) for source in sources for call in source.calls]
    names = {called(call) for _, call in calls}
    for line in command_lines():
        if not any(source.libraries.intersection(line.libraries) for source in sources):
            continue
        for source, call in calls:
            if called(call) in line.clis:
                yield Evidence(called(call), source.place(call))
        made = next((name for name in sorted(_names_of(sources)) if name.endswith(line.trainers)), "")
        for source, call in calls:
            if called(call) == line.trains and (_by_a_trainer(call, line) or (made and line.trains != _MODE)):
                yield Evidence(f"`{made or line.trainers[0]}.{line.trains}`", source.place(call))
    if "step" in names:
        for source, call in calls:
            if called(call) == "backward":
                yield Evidence("a training loop", source.place(call))


def _by_a_trainer(call: ast.Call, line: CommandLine) -> bool:
    """Whether what is called is a method of something that is called a trainer, or was made as one on the spot."""
    of = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(of, ast.Call):
        return called(of).endswith(line.trainers)
    return of is not None and "trainer" in dotted(of).lower()


def _names_of(sources: Sequence[Source]) -> set[str]:
    """What these files call or import, by its last name."""
    imported = {name.rpartition(".")[2] for source in sources for name in source.imported.values()}
    return imported | {called(call) for source in sources for call in source.calls}


def _trains_at_once(source: Source) -> bool:
    """Whether training stands outside of functions, so that the file trains when it is run."""
    top = [node for node in outside_functions(source.tree.body) if isinstance(node, ast.Call)]
    methods = {"backward", *(line.trains for line in command_lines())}
    if any(called(call) in methods or any(called(call) in line.clis for line in command_lines()) for call in top):
        return True
    # `train()` as the last line of a script without a guard.
    return any(isinstance(call.func, ast.Name) and call.func.id in source.functions for call in top)


_Settings = tuple[Style, tuple[Option, ...], tuple[tuple[Option, str], ...], tuple[str, ...]]


def _settings(root: Path, sources: Sequence[Source], mark: ast.Call | None) -> _Settings:
    if mark is not None:
        found = keys.of_hydra(root, sources[0], mark, sources)
        return Style.HYDRA, found.options, found.settled, ()
    for line in command_lines():
        for source in sources:
            for call in source.calls:
                if called(call) in line.clis:
                    return _of_cli(line, call)
    own = parsers.options_of(sources[:1])
    options = own or parsers.options_of(sources)
    if not options and (given := keys.of_omegaconf(root, sources)) is not None:
        return Style.KEYS, given.options, given.settled, ()
    return (Style.OPTIONS if options else Style.NONE), options, (), ()


def _of_cli(line: CommandLine, call: ast.Call) -> _Settings:
    """The options of a program whose trainer reads the command line itself."""
    names = [*line.short, *([(line.directory, "{tmp}")] if line.directory else [])]
    settled = tuple((Option(name, f"--trainer.{name}"), value) for name, value in names)
    runs = literal(next((item.value for item in call.keywords if item.arg == "run"), None)) is not False
    return Style.CLI, (Option(line.seed, f"--{line.seed}"),), settled, (line.command,) if runs else ()


def _module(source: Source, paths: frozenset[str]) -> str:
    """The name to start it by where it can only be started as part of its package."""
    relative = any(name.startswith(".") for name in source.imported.values())
    top = source.path.partition("/")[0]
    # A script finds what lies beside it, and not the package that it is part of.
    from_top = "/" in source.path and top in source.libraries and f"{top}/__init__.py" in paths
    if not relative and not from_top:
        return ""
    parts = source.path.removesuffix(".py").split("/")
    return ".".join(parts[:-1] if parts[-1] == "__main__" else parts)


def _constant_seeds(source: Source) -> Iterator[str]:
    for call in source.calls:
        if called(call) in _SEEDS and call.args and isinstance(literal(call.args[0]), int):
            yield source.place(call)


def _texts(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _PATH.fullmatch(node.value):
            yield node.value
