"""Parses the command line, runs one command, and turns what goes wrong into a message and an exit status."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

from pytest_traincheck import __version__
from pytest_traincheck.cli import moments, options, speech
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.streams import complain, detail, let_go_of_stdout, printable_output, speaking
from pytest_traincheck.detail import Detail
from pytest_traincheck.disk import write_remedy
from pytest_traincheck.input_error import InputError
from pytest_traincheck.launch.termination import exit_on_termination

COMMANDS = (
    "init", "audit", "compare", "check", "refresh", "accept", "list", "status", "doctor", "diff", "show", "run",
    "watch", "collect", "infer", "trace", "replay", "bisect", "selftest", "upgrade", "history", "schema",
)  # fmt: skip
_MODULES = {"list": "listing", "status": "listing"}
"""Command -> its module in this package, where it has another name."""

_DESCRIPTION = """\
Learn training invariants from golden code and check a candidate against them.

exit status: 0 nothing broken, 1 incidents, 2 wrong use or bad input,
             3 a run failed, timed out or was unreliable
"""


def build_parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """The parser that knows these commands: all of them, which it takes for help and completion."""
    parser = moments.CommandsByMoment(
        prog="traincheck", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"pytest-traincheck {__version__}")
    parser.add_argument(
        "--completion",
        action=moments.PrintCompletion,
        choices=moments.SHELLS,
        help="print the completion script of a shell",
    )
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=argparse.ArgumentParser
    )
    for module in dict.fromkeys(_MODULES.get(name, name) for name in names):
        # Each command needs another part of the product, and all take longer to import than most of them to run.
        import_module(f"pytest_traincheck.cli.{module}").add(commands)
    speech.add(commands)
    return parser


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command. Exits with 2 where they are wrong."""
    words, command = options.split_command(argv)
    arguments = build_parser(_needed(words)).parse_args(options.with_seed_argument(words))
    arguments.command_words = command
    arguments.typed = tuple(argv)
    return arguments


def _needed(words: Sequence[str]) -> Iterable[str]:
    """The commands that a parser of these words has to know to say the same as one that knows all."""
    first = words[0] if words else ""
    if first == "--version":
        return ()
    # Nothing but `--version`, help and completion can stand in front of a command, and the latter two speak of all.
    return (first,) if first in COMMANDS else COMMANDS


def main(argv: Sequence[str] | None = None) -> int:
    """Run `traincheck` with `argv` (the process's own arguments unless given) and return the exit status."""
    arguments = parse(sys.argv[1:] if argv is None else argv)
    with speaking(speech.voice_of(arguments)):
        return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    try:
        with exit_on_termination(), printable_output():
            return int(arguments.handle(arguments))
    except InputError as error:
        if detail() is Detail.FULL:
            traceback.print_exc()
        complain(error)
        return Status.BAD_INPUT
    except BrokenPipeError:
        # The reader of our output has gone (`| head`).
        let_go_of_stdout()
        return Status.BROKEN_PIPE
    except OSError as error:
        # A disk that is full, a directory that may not be entered: bad input, not our mistake.
        place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
        remedy = write_remedy(error, Path(), "Check that the path exists and can be written.")
        complain(f"{place}{error.strerror or error}. {remedy}")
        let_go_of_stdout()
        return Status.BAD_INPUT
    except Exception:  # noqa: BLE001 - Python would exit with 1, which says that a check found incidents
        traceback.print_exc()
        print(
            f"traincheck: internal error in `traincheck {arguments.command}`, so nothing was decided. "
            "Please report the traceback above as a bug of pytest-traincheck.",
            file=sys.stderr,
        )
        return Status.RUN_FAILED
    except KeyboardInterrupt:
        print("traincheck: interrupted", file=sys.stderr)
        return Status.INTERRUPTED
