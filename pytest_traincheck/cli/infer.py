"""`traincheck infer`: traces to a golden, or those of many programs to a pack."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_traincheck.cli import options
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import tell
from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.golden import store
from pytest_traincheck.golden.chance import chance, not_repeating
from pytest_traincheck.infer.transferable import MIN_PROGRAMS
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.run_directory import COLLECT_FILE, RUN_FILE
from pytest_traincheck.packs import store as packs
from pytest_traincheck.packs.model import Level
from pytest_traincheck.text import plural


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("infer", help="learn a golden, or a pack, from traces")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN_DIR", help="what `traincheck collect` recorded")
    parser.add_argument(
        "--output", required=True, type=options.output_file, metavar="FILE", help="golden file, or pack"
    )
    parser.add_argument("--name", metavar="NAME", help="pipeline or pack (default: that of the file)")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; stored in the file")
    group = parser.add_argument_group("packs")
    group.add_argument(
        "--transferable",
        action="store_true",
        help="learn a pack for `traincheck audit`: what right programs have in common. Each RUN_DIR is a program: one "
        "run of it, or a directory with several",
    )
    group.add_argument("--laws-only", action="store_true", help="only rules that have a reason")
    group.add_argument(
        "--library", default="torch", metavar="NAME", help="whose users the pack is for (default: torch)"
    )
    group.add_argument(
        "--min-programs",
        type=options.count,
        default=MIN_PROGRAMS,
        metavar="N",
        help=f"programs that must show a law with a reason (default: {MIN_PROGRAMS})",
    )
    group.add_argument(
        "--mistake",
        action="append",
        default=[],
        type=_mistake,
        metavar="PROGRAM=RULE",
        help="a program that breaks a law by mistake has no part in learning it; repeatable",
    )
    parser.set_defaults(handle=run)


def _mistake(text: str) -> tuple[str, str]:
    program, _, rule = text.rpartition("=")
    if not program or not rule:
        raise argparse.ArgumentTypeError(f"{text!r} is no PROGRAM=RULE; write --mistake train_a=gradients-left-over")
    return program, rule


def run(arguments: argparse.Namespace) -> int:
    return _pack(arguments) if arguments.transferable else _golden(arguments)


def _pack(arguments: argparse.Namespace) -> int:
    from pytest_traincheck.infer import Terms, learn_pack
    from pytest_traincheck.workflow.programs import load_programs

    packs.require_replaceable(arguments.output)
    name = arguments.name or arguments.output.name.removesuffix(packs.SUFFIX)
    mistakes: dict[str, frozenset[str]] = {}
    for program, rule in arguments.mistake:
        mistakes[program] = mistakes.get(program, frozenset()) | {rule}
    terms = Terms(arguments.library, arguments.laws_only, arguments.min_programs, mistakes=mistakes)
    pack = learn_pack(load_programs(arguments.runs), name=name, terms=terms, reason=arguments.reason)
    packs.write(arguments.output, pack)
    tell(
        f"{name}: learned {plural(pack.count(Level.LAW), 'law')} and {plural(pack.count(Level.HABIT), 'habit')} from "
        f"{plural(len(pack.programs), 'program')}, wrote {arguments.output}"
    )
    return Status.CLEAN


def _golden(arguments: argparse.Namespace) -> int:
    from pytest_traincheck.check.unsaid import unsaid
    from pytest_traincheck.infer import learn
    from pytest_traincheck.trace import load_run

    store.require_replaceable(arguments.output)
    name = arguments.name or arguments.output.name.removesuffix(store.SUFFIX)
    facts = [_facts(path) for path in arguments.runs]
    golden = learn(
        [load_run(path) for path in arguments.runs],
        pipeline=name,
        spec=_spec(name, facts[0]).fingerprint(),
        commit="",
        environment=read_environment(arguments.runs[0]),
        seeds=tuple(dict.fromkeys(item["seed"] for item in facts if isinstance(item.get("seed"), int))),
        reason=arguments.reason,
    )
    store.write(arguments.output, golden)
    beside = f", with numbers for {golden.platform} beside it" if golden.numbers else ""
    tell(f"{name}: learned {plural(len(golden.invariants), 'rule')}, wrote {arguments.output}{beside}")
    for warning in (*chance(golden), *not_repeating(golden), *unsaid(golden)):
        print(f"warning: {warning}")
    return Status.CLEAN


def _facts(run_dir: Path) -> Mapping[str, Any]:
    """How a run was asked for, as far as its directory tells. A trace made in process has no such file."""
    for name, command in ((COLLECT_FILE, "run"), (RUN_FILE, "command")):
        try:
            content = json.loads((run_dir / name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(content, dict):
            return {**content, "run": content.get(command)}
    return {}


def _spec(name: str, facts: Mapping[str, Any]) -> PipelineSpec:
    def text(key: str) -> str | None:
        value = facts.get(key)
        return value if isinstance(value, str) else None

    # Only `collect` knows the directory as the configuration would write it.
    cwd = text("cwd") or "."
    return PipelineSpec(
        name=name,
        run=text("run") or "",
        cwd="." if Path(cwd).is_absolute() else cwd,
        seed_arg=text("seed_arg"),
        seed_env=text("seed_env"),
        seed_by=text("seed_by"),
        steps=facts["steps"] if isinstance(facts.get("steps"), int) else None,
    )
