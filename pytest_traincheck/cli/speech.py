"""Options that every command has: how much it says, and in which colours."""

from __future__ import annotations

import argparse

from pytest_traincheck.cli.streams import Voice
from pytest_traincheck.detail import Detail


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Give them to every command that there is by now."""
    for parser in dict.fromkeys(commands.choices.values()):
        group = parser.add_argument_group("output")
        much = group.add_mutually_exclusive_group()
        much.add_argument(
            "-q", "--quiet", dest="detail", action="store_const", const=Detail.BRIEF, default=Detail.USUAL,
            help="say only how it ended and what is wrong, and nothing meanwhile",
        )  # fmt: skip
        much.add_argument(
            "-v", "--verbose", dest="detail", action="store_const", const=Detail.FULL,
            help="say everything: all that was broken, all reasons, whole outputs, where an error was raised",
        )  # fmt: skip
        group.add_argument("--no-color", action="store_true", help="no colours (likewise with NO_COLOR=1)")


def voice_of(arguments: argparse.Namespace) -> Voice:
    """What these options ask for."""
    return Voice(arguments.detail, not arguments.no_color)
