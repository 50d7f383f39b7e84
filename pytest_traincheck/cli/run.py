"""`traincheck run`: a training of any length, watched while it goes on."""

from __future__ import annotations

import argparse
import platform
import re
import shlex
from pathlib import Path
from types import EllipsisType

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.cli import options, output, streams
from pytest_traincheck.cli.live import Lines
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.status_of_results import status_of
from pytest_traincheck.cli.streams import complain
from pytest_traincheck.config import ConfigError
from pytest_traincheck.launch import run_directory
from pytest_traincheck.workflow import states
from pytest_traincheck.workflow.meant import against, meant
from pytest_traincheck.workflow.runs import RunFailed
from pytest_traincheck.workflow.train import Reaction, TrainRequest, run_watched

DEFAULT_KEPT = 1 << 30
"""Bytes of a trace that is removed in the end."""
DEFAULT_SHARE = 5.0
"""Percent of the time of a training that observing may take."""


def every(text: str) -> int | None:
    """One step in so many; None: as few as are affordable."""
    if text == "auto":
        return None
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of steps; write --every 10, or --every auto")
    return int(text)


def size(text: str) -> int | None:
    """A number of bytes; None: all that there are."""
    if text == "all":
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text, re.IGNORECASE)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size; write --keep 500MB, --keep 2GB or --keep all")
    return int(float(found[1]) * 1024 ** " KMGT".index(found[2].upper() or " "))


def percent(text: str) -> float:
    """A part in percent."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = 0.0
    if not 0 < value <= 100:
        raise argparse.ArgumentTypeError(f"{text!r} is no percentage; write --share 5")
    return value


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "run",
        help="train, and check while the training goes on",
        usage="traincheck run [options] [NAME] [-- COMMAND ...]",
        description="Train, and check while the training goes on. What follows -- is the command, as you type it.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="configured pipeline; its command unless one is given")
    parser.add_argument(
        "--golden", type=options.ref, metavar="FILE|NAME|REF", help="golden (default: that of the pipeline)"
    )
    parser.add_argument(
        "--on-incident",
        type=Reaction,
        choices=list(Reaction),
        default=Reaction.WARN,
        metavar="warn|stop|checkpoint",
        help="at the first incident say so, send SIGTERM to the training, or ask it for a checkpoint (default: warn)",
    )
    parser.add_argument(
        "--every",
        type=every,
        default=1,
        metavar="N|auto",
        help="behind the first steps observe one in N; `auto`: as many as --share allows (default: 1, every step)",
    )
    parser.add_argument(
        "--share",
        type=percent,
        metavar="PERCENT",
        help="part of the training's time that observing may take with --every=auto, which this means (default: 5)",
    )
    parser.add_argument(
        "--checkpoint-file", type=options.output_file, metavar="FILE", help="file to touch that asks for a checkpoint"
    )
    parser.add_argument(
        "--checkpoint-command", type=options.command, metavar="CMD", help="command to run that asks for a checkpoint"
    )
    parser.add_argument(
        "--json", type=options.output_file, metavar="FILE", help="a line for each incident, and one with the result"
    )
    parser.add_argument("--keep-trace", type=Path, metavar="DIR", help="keep the trace in DIR")
    parser.add_argument(
        "--keep",
        type=size,
        default=...,
        metavar="SIZE",
        help="on the disk keep the first steps and the last SIZE (500MB, 2GB, all) of each trace "
        "(default: 1GB, or all with --keep-trace)",
    )
    parser.add_argument(
        "--continues",
        type=Path,
        metavar="TRACE_DIR|FILE",
        help="the run goes on with this one: the trace that it kept, or its end-state.npz",
    )
    options.add_export(parser)
    options.add_config(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        request = _request(arguments)
    except RunFailed as failure:
        output.show(CheckResult(arguments.name or "", errors=(failure.error,), notes=failure.notes))
        return Status.RUN_FAILED
    lines = Lines(request.against.golden.pipeline, arguments.json, arguments.export)
    streams.remark(f"watching against {request.against.where}")
    trained = run_watched(request, lines.incident, lines.steps)
    lines.end(trained.result)
    output.show(trained.result)
    if trained.signalled is not None and not trained.result.incidents:
        complain(f"ended by {trained.signalled.name}")
        return 128 + trained.signalled
    return status_of([trained.result])


def _continued(path: Path | None) -> Path | None:
    """What is gone on with, which must be there before a training of weeks begins."""
    if path is not None and not path.exists():
        raise ConfigError(
            f"--continues: there is no {path}. Give the directory that the earlier run kept its trace in "
            "(--keep-trace), or the file end-state.npz in it."
        )
    return path.absolute() if path is not None else None


def _makes_holes() -> bool:
    """Whether this system can give a part of a file back to the disk."""
    return platform.system() == "Linux"


def _kept(asked: int | EllipsisType | None, directory: Path | None) -> int | None:
    """How much of a trace stays on the disk; None: all of it."""
    if isinstance(asked, EllipsisType):
        return None if directory is not None or not _makes_holes() else DEFAULT_KEPT
    if asked is not None and not _makes_holes():
        raise ConfigError("--keep needs a file system of Linux's. Leave it out: the whole trace is kept then.")
    return asked


def _request(arguments: argparse.Namespace) -> TrainRequest:
    if arguments.on_incident is Reaction.CHECKPOINT and not (arguments.checkpoint_file or arguments.checkpoint_command):
        raise ConfigError(
            "--on-incident=checkpoint does not say how a checkpoint is asked for. Add --checkpoint-file FILE, which is "
            "touched, or --checkpoint-command CMD, which is run."
        )
    keep = arguments.keep_trace.absolute() if arguments.keep_trace is not None else None
    if keep is not None:
        run_directory.require_usable(keep)
    found = meant(arguments.name, arguments.golden, Path.cwd(), arguments.config)
    config, spec = found.config, found.spec
    own = not arguments.command_words
    words = tuple(shlex.split(spec.run)) if own and spec is not None else tuple(arguments.command_words)
    if not words:
        raise ConfigError("there is no command to run. Write it as you type it, behind --: -- python train.py")
    continues = _continued(arguments.continues)
    held = against(words, found, arguments.golden, streams.progress(), continued=continues is not None)
    if continues is not None:
        held = states.gone_on_with(continues, held)
    common = TrainRequest(
        words,
        Path.cwd(),
        held,
        seed=held.seed,
        env=dict(spec.env) if spec is not None else {},
        reaction=arguments.on_incident,
        touches=arguments.checkpoint_file,
        calls=arguments.checkpoint_command or "",
        keep=keep,
        continues=continues,
        keep_bytes=_kept(arguments.keep, keep),
        every=None if arguments.share is not None else arguments.every,
        share=(arguments.share if arguments.share is not None else DEFAULT_SHARE) / 100,
    )
    return common.as_configured(config, spec) if own and config is not None and spec is not None else common
