"""Programs of `fixtures/watched`, watched by `traincheck run` for hundreds of steps: what it tells, and when.

    python benchmarks/watched.py --scratch DIR --write docs/watched.md

A golden is learned from each program's short command. Then two seeds, one step in ten, a refactoring, resumes and every
bug are watched. The exit status is 0 whatever is found: the page is what comes out.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import FIXTURES, environment, machine, markdown_table, own_package, traincheck
from planted import apply_patch

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CORPUS = FIXTURES / "watched"
SEEDS = (0, 1, 2)
OTHER_SEED = 5
HALF = 120
"""Length of the first process where another one goes on."""
_TITLE = """# Bugs in trainings that are watched

What `traincheck run` tells of the programs of [fixtures/watched](../fixtures/watched/README.md), made by
`python benchmarks/watched.py --scratch DIR --write docs/watched.md`. They were written without knowledge of the
checker, which has learned from them since:
[how it first came out](../benchmarks/RESULTS.md#watched-for-hundreds-of-steps)."""


@dataclass(frozen=True)
class Watched:
    """What was told of one training: exit status, and (step, title, subject) of each incident in the report."""

    status: int
    incidents: tuple[tuple[int, str, str], ...]
    output: str


def tree(program: str, into: Path, patch: Path | None = None) -> Path:
    """A copy of a program, patched."""
    shutil.copytree(CORPUS / program, into)
    if patch is not None:
        apply_patch(patch, into)
    return into


def prepared(name: str, table: Mapping[str, Any], into: Path, patch: Path | None = None) -> Path:
    """The same, in which what has to run before was run."""
    where = tree(name, into, patch)
    if "prepare" in table:
        words = [sys.executable if word == "python" else word for word in shlex.split(table["prepare"])]
        subprocess.run(words, cwd=where, env=environment(own_package()), check=True)
    return where


def learn(name: str, table: Mapping[str, Any], home: Path) -> Path:
    """The golden of a program, learned in a repository of its own."""
    repository = prepared(name, table, home / "golden")
    settings = {"run": table["golden"], "seed_arg": "--seed {seed}", "seeds": [*SEEDS], "timeout": 600}
    lines = [f"[pipelines.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
    (repository / "traincheck.toml").write_text("\n".join(lines) + "\n")
    for words in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", *words], cwd=repository, check=True)
    done = call(repository, "refresh", name, "--reason", "first")
    if done.returncode:
        raise SystemExit(f"the golden of {name} was not learned:\n{done.stdout[-3000:]}")
    return repository / "golden_invariants" / f"{name}.jsonl"


def call(cwd: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in traincheck(*words)],
        cwd=cwd, env=environment(own_package()), text=True, timeout=1200, check=False,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


def watch(where: Path, golden: Path, words: Sequence[str], *options: str) -> Watched:
    """Watches one training in a folder of its own."""
    told = where / "told.jsonl"
    done = call(where, "run", "--golden", golden, "--json", told, *options, "--", *words)
    lines = told.read_text().splitlines() if told.exists() else []
    document = json.loads(lines[-1]) if lines else {}
    incidents = document.get("incidents") or []
    return Watched(
        done.returncode, tuple((each["step"], each["title"], each["subject"]) for each in incidents), done.stdout
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", type=Path, help="keep goldens, traces and outputs here")
    parser.add_argument("--write", type=Path, help="write the page to this file instead of printing it")
    parser.add_argument("--only", action="append", metavar="PROGRAM", help="this program alone; repeatable")
    arguments = parser.parse_args()
    corpus = tomllib.loads((CORPUS / "watched.toml").read_text(encoding="utf-8"))
    facts = machine()
    with tempfile.TemporaryDirectory(prefix="watched-") as folder:
        scratch = (arguments.scratch or Path(folder)).resolve()
        bugs, clean = [], []
        for name, table in corpus["programs"].items():
            wanted = not arguments.only or name in arguments.only
            if wanted and ("needs" not in table or importlib.util.find_spec(table["needs"])):
                of_program = [bug for bug in corpus["bug"] if bug["program"] == name]
                found = judge(name, table, of_program, scratch / name)
                bugs += found[0]
                clean.append(found[1])
                print(f"{name}: done", file=sys.stderr)
    page = report(bugs, clean, facts)
    if arguments.write:
        arguments.write.write_text(page, encoding="utf-8")
    else:
        print(page)


def judge(
    name: str, table: Mapping[str, Any], bugs: Sequence[Mapping[str, Any]], home: Path
) -> tuple[list[tuple[Mapping[str, Any], Watched]], tuple[str, str, list[tuple[str, Watched]]]]:
    """All trainings of one program: its bugs, and what is right."""
    golden = learn(name, table, home)

    def words(seed: int = 0, steps: int = table["steps"]) -> list[str]:
        return shlex.split(table["run"].format(steps=steps, seed=seed))

    plain = prepared(name, table, home / "clean")
    refactored = prepared(name, table, home / "refactor", CORPUS / "refactors" / f"{name}.patch")
    clean = [
        ("seed 0", watch(plain, golden, words())),
        (f"seed {OTHER_SEED}", watch(plain, golden, words(OTHER_SEED))),
        ("one step in ten", watch(plain, golden, words(), "--every", "10")),
        ("refactoring", watch(refactored, golden, words())),
    ]
    goes_on: list[str] = []
    continues = ("--continues", str(home / "half-trace"))
    if "resume" in table:
        first, half = prepared(name, table, home / "half"), words(steps=table.get("half", HALF))
        clean.append(("the first half", watch(first, golden, half, "--keep-trace", continues[1])))
        goes_on = [table["resume"], str(first / "out" / table["saved"])]
        second = prepared(name, table, home / "second")
        clean.append(("resumed", watch(second, golden, [*words(), *goes_on], *continues)))
        clean.append(("resumed, found by itself", watch(second, golden, [*words(), *goes_on])))
    found = []
    for bug in bugs:
        where = prepared(name, table, home / bug["id"], CORPUS / "bugs" / f"{bug['id']}.patch")
        resumed = bug.get("resumed", False)
        # What is wrong in saving shows in what goes on with it.
        if resumed and bug.get("saves"):
            trace = str(home / f"{bug['id']}-trace")
            watch(where, golden, half, "--keep-trace", trace)
            goes_on_there = [table["resume"], str(where / "out" / table["saved"])]
            found.append((bug, watch(where, golden, [*words(), *goes_on_there], "--continues", trace)))
            continue
        found.append(
            (bug, watch(where, golden, [*words(), *(goes_on if resumed else [])], *(continues if resumed else ())))
        )
    return found, (name, table["covers"], clean)


def names_cause(bug: Mapping[str, Any], watched: Watched) -> bool:
    """Whether the first incident has one of the words that were written down for the bug."""
    if not watched.incidents:
        return False
    _, title, subject = watched.incidents[0]
    return any(word in f"{title} {subject}".lower() for word in bug["words"])


def report(
    bugs: Sequence[tuple[Mapping[str, Any], Watched]],
    clean: Sequence[tuple[str, str, list[tuple[str, Watched]]]],
    facts: Mapping[str, str],
) -> str:
    """The page: totals, a row for each bug, and one for each program."""
    found = sum(bool(watched.incidents) for _, watched in bugs)
    causes = sum(names_cause(bug, watched) for bug, watched in bugs)
    runs = [watched for _, _, cases in clean for _, watched in cases]
    silent = sum(not watched.status for watched in runs)
    rows = [
        (
            bug["id"],
            bug["title"],
            bug["begins"],
            "yes" if watched.incidents else "**no**",
            "" if not watched.incidents else "yes" if names_cause(bug, watched) else "no",
            len(watched.incidents),
            watched.incidents[0][0] if watched.incidents else "",
            watched.incidents[0][1].replace("|", "\\|") if watched.incidents else "",
        )
        for bug, watched in bugs
    ]
    programs = [
        (
            name,
            covers,
            ", ".join(f"{case}{'' if not watched.status else f' **{_outcome(watched)}**'}" for case, watched in cases),
        )
        for name, covers, cases in clean
    ]
    header = ("bug", "what was planted", "begins", "found", "cause", "incidents", "first step", "first incident")
    measured = ", ".join(f"{name} {value}" for name, value in facts.items())
    return (
        f"{_TITLE}\n\n{found} of {len(bugs)} bugs are found, {causes} with the cause on top; {silent} of {len(runs)} "
        "right trainings pass without an incident. Steps are counted from 0.\n\n## Bugs\n\n"
        f"{markdown_table(header, rows)}\n\n## Right trainings\n\n"
        f"{markdown_table(('program', 'covers', 'watched'), programs)}\n\nMeasured on: {measured}.\n"
    )


def _outcome(watched: Watched) -> str:
    return f"{len(watched.incidents)} incidents" if watched.status == 1 else f"exit status {watched.status}"


if __name__ == "__main__":
    main()
