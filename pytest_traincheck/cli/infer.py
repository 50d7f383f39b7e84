"""`traincheck infer`: traces to a golden."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_traincheck.cli import options
from pytest_traincheck.cli.status import Status
from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.golden import store
from pytest_traincheck.golden.chance import chance, not_repeating
from pytest_traincheck.launch.metadata import read_environment
from pytest_traincheck.launch.run_directory import COLLECT_FILE, RUN_FILE
from pytest_traincheck.text import plural


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("infer", help="learn a golden from traces")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN_DIR", help="what `traincheck collect` recorded")
    parser.add_argument("--output", required=True, type=options.output_file, metavar="FILE", help="golden file")
    parser.add_argument("--name", metavar="NAME", help="pipeline (default: that of the file)")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; stored in the golden")
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
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
    print(f"{name}: learned {plural(len(golden.invariants), 'rule')}, wrote {arguments.output}{beside}")
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
