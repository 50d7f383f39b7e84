"""`traincheck diff`: what changed between two goldens, as prose."""

from __future__ import annotations

import argparse

from pytest_traincheck.cli import options
from pytest_traincheck.cli.goldens import pairs
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import detail
from pytest_traincheck.detail import Detail
from pytest_traincheck.golden.diff import diff
from pytest_traincheck.golden.diff_text import render_diff
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.text import plural


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("diff", help="what changed between two goldens, as prose")
    meaning = "golden file, name of a configured pipeline, or git ref"
    parser.add_argument("old", metavar="OLD", help=meaning)
    parser.add_argument("new", metavar="NEW", help=meaning)
    options.add_config(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    texts = [
        _text(name, old, new, arguments)
        for name, old, new in pairs(arguments.old, arguments.new, arguments.config)
        if old is not None or new is not None
    ]
    between = "\n" if detail() is Detail.BRIEF else "\n\n"
    print(between.join(texts) or f"neither {arguments.old} nor {arguments.new} has a golden of a configured pipeline")
    return Status.CLEAN


def _text(name: str, old: Golden | None, new: Golden | None, arguments: argparse.Namespace) -> str:
    if old is None or new is None:
        there, ref = (new, arguments.new) if new is not None else (old, arguments.old)
        assert there is not None
        return f"`{name}`: {plural(len(there.invariants), 'rule')} at {ref}, no golden on the other side"
    text = render_diff(diff(old, new)).rstrip("\n")
    return text.partition("\n")[0] if detail() is Detail.BRIEF else text
