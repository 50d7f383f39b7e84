"""Options that had another name. It keeps working, says so on stderr, and stands in no help."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any


class OldName(argparse.Action):
    """Does what the option `now` of the same parser does, and names it."""

    def __init__(self, option_strings: Sequence[str], dest: str, *, now: str, **keywords: Any) -> None:
        super().__init__(option_strings, dest, help=argparse.SUPPRESS, **keywords)
        self.now = now

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        print(f"traincheck: note: {option_string} is called {self.now} now", file=sys.stderr)
        parser._option_string_actions[self.now](parser, namespace, values, self.now)


def add_old_name(container: argparse._ActionsContainer, old: str, action: argparse.Action) -> None:
    """Let `old` do what `action`, an option of the container, does."""
    container.add_argument(
        old,
        dest=action.dest,
        action=OldName,
        now=action.option_strings[0],
        nargs=action.nargs,
        type=action.type or str,
        default=argparse.SUPPRESS,
    )
