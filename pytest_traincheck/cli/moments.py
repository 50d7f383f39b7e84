"""The help of `traincheck` itself, its commands by the moment at which one wants them, and completion for shells."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

MOMENTS = {
    "begin": ("init",),
    "without a golden": ("audit",),
    "learn what is right": ("refresh", "show", "diff", "list"),
    "check a change": ("check", "compare", "accept", "replay", "bisect", "upgrade", "history"),
    "watch a training that goes on": ("run", "watch"),
    "ask whether all this works": ("doctor", "selftest"),
    "single steps, for scripts": ("collect", "infer", "trace", "schema"),
}
"""Title -> commands. Each command stands under one of them."""

SHELLS = ("bash", "zsh", "tcsh")
_FILES, _DIRECTORIES = frozenset({"FILE", "GOLDEN", "FILE|NAME|REF"}), frozenset({"DIR", "TRACE_DIR", "RUN_DIR"})


class MissingLibraryError(ValueError):
    """What a library of an extra is needed for, and how to install it."""


class CommandsByMoment(argparse.ArgumentParser):
    """A parser whose help has a section for each of `MOMENTS`."""

    def format_help(self) -> str:
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        known = {action.metavar.split()[0]: action for action in self._commands() if isinstance(action.metavar, str)}
        for title, names in MOMENTS.items():
            formatter.start_section(title)
            formatter.add_arguments([known[name] for name in names if name in known])
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()

    def _commands(self) -> Iterator[argparse.Action]:
        """What argparse itself lists for the commands: a name and a line for each."""
        for action in self._actions:
            if isinstance(action, argparse._SubParsersAction):
                yield from action._get_subactions()


class PrintCompletion(argparse.Action):
    """`--completion SHELL`: print what the shell needs to complete commands and options, and end."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: object, values: object, option: object = None
    ) -> None:
        del namespace, option
        try:
            print(completion(parser, str(values)))
        except MissingLibraryError as error:
            parser.error(str(error))
        parser.exit()


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """The script for a shell. Raises `MissingLibraryError`."""
    try:
        import shtab
    except ImportError as error:
        raise MissingLibraryError(
            "`--completion` needs shtab, which is not installed. Run `pip install 'pytest-traincheck[completion]'`."
        ) from error
    _say_what_is_a_path(parser, shtab.FILE, shtab.DIRECTORY)
    return str(shtab.complete(parser, shell=shell))


def _say_what_is_a_path(parser: argparse.ArgumentParser, file: object, directory: object) -> None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _say_what_is_a_path(command, file, directory)
        elif action.metavar in _FILES | _DIRECTORIES:
            action.complete = file if action.metavar in _FILES else directory  # type: ignore[attr-defined]
