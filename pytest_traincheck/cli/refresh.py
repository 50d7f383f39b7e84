"""`traincheck refresh`: learn the goldens of configured pipelines again."""

from __future__ import annotations

import argparse
import shlex

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.cli import options, output, streams
from pytest_traincheck.cli.old_names import add_old_name
from pytest_traincheck.cli.status import Status
from pytest_traincheck.report.refresh.html import write_html
from pytest_traincheck.workflow.engine import default_engine
from pytest_traincheck.workflow.goldens import unused_goldens, unused_text
from pytest_traincheck.workflow.next_steps import PLACEHOLDER
from pytest_traincheck.workflow.refresh import Refresh, refresh
from pytest_traincheck.workflow.refresh_intent import Acceptance
from pytest_traincheck.workflow.refresh_page import refreshed
from pytest_traincheck.workflow.refresh_text import refresh_text, refused_text, shell


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("refresh", help="learn the goldens of configured pipelines again, and show the diff")
    parser.add_argument("names", nargs="*", metavar="NAME", help="pipelines (default: all)")
    golden = parser.add_argument(
        "--golden", type=options.ref, metavar="REF", help="learn from this git ref (default: the working tree)"
    )
    add_old_name(parser, "--ref", golden)
    parser.add_argument("--reason", default="", type=_reason, metavar="TEXT", help="why; stored in the golden")
    meant = parser.add_mutually_exclusive_group()
    meant.add_argument(
        "--accept", action="append", default=[], metavar="ID",
        help="this incident is intended: its id, or the id or subject of its rule, or a glob (repeatable)",
    )  # fmt: skip
    everything = meant.add_argument(
        "--accept-all", action="store_true", help="all incidents against the stored goldens are intended"
    )
    add_old_name(meant, "--all", everything)
    options.add_jobs(parser)
    options.add_config(parser)
    options.add_html(parser)
    options.add_artifacts(parser)
    parser.set_defaults(handle=run)


def _reason(text: str) -> str:
    if text == PLACEHOLDER:
        raise argparse.ArgumentTypeError(f"{text!r} stands for a reason; say why, or leave it out")
    return text


def run(arguments: argparse.Namespace) -> int:
    config = options.configuration(arguments)
    specs = options.chosen(config, arguments.names)
    outcome = refresh(
        config,
        specs,
        arguments.golden,
        arguments.reason,
        acceptance=Acceptance(tuple(arguments.accept), arguments.accept_all),
        progress=streams.progress(),
        artifacts=arguments.artifacts,
        engine=default_engine(arguments.jobs or config.jobs or 1),
        waiting=lambda holder: streams.remark(f"waiting for {holder}"),
    )
    _show(outcome, arguments)
    if arguments.html is not None:
        write_html(arguments.html, refreshed(outcome, lambda _pipeline, identity: _accepting(arguments, identity)))
    if outcome.decision.failed:
        return Status.RUN_FAILED
    if not arguments.names:
        for note in unused_text(unused_goldens(config), config.root, with_command=True):
            streams.tell(f"\nnote: {note}")
    return Status.INCIDENTS if outcome.decision.refused else Status.CLEAN


def _show(outcome: Refresh, arguments: argparse.Namespace) -> None:
    decision = outcome.decision
    for number, item in enumerate(outcome.pipelines):
        if number:
            streams.tell("")
        if item.result.errors:
            output.show(CheckResult(item.pipeline, errors=item.result.errors))
        accepted = decision.accepted.get(item.pipeline, ())
        print(refresh_text(item, written=decision.may_write, accepted=accepted, detail=streams.detail()))
    if decision.refused:
        print("\n" + refused_text(decision.refused, lambda _pipeline, identity: _accepting(arguments, identity)))


def _accepting(arguments: argparse.Namespace, identity: str) -> str:
    """The command that was typed, and the acceptance of one incident, or of all."""
    words = ["traincheck", "refresh", *arguments.names]
    if arguments.config is not None:
        words += ["--config", str(arguments.config)]
    if arguments.golden is not None:
        words += ["--golden", arguments.golden]
    for name in (*arguments.accept, identity) if identity else ():
        words += ["--accept", name]
    if not identity:
        words.append("--accept-all")
    reason = shlex.quote(arguments.reason) if arguments.reason else f'"{PLACEHOLDER}"'
    return f"{shell(words)} --reason {reason}"
