"""Options that several commands share, and the types of their values."""

from __future__ import annotations

import argparse
import datetime
import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from pytest_traincheck.config import SEED_BY_PROBE, Config, ConfigError, PipelineSpec, load, unusable_link
from pytest_traincheck.jobs import Jobs, jobs_of
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.exporting import ExportTarget, export_target


def add_html(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument("--html", type=output_file, metavar="FILE", help="write an HTML report")


def add_artifacts(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "--artifacts", type=Path, metavar="DIR", help="keep traces, output, golden, result and a bundle in DIR/PIPELINE"
    )


def add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--export",
        type=export,
        action="append",
        default=[],
        metavar="NAME=TARGET",
        help="tell the training to prometheus=FILE, tensorboard=DIR, otel=URL, ... while it goes on (repeatable)",
    )


def add_history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--history", type=output_file, metavar="FILE", help="add a line to FILE, for `traincheck history`"
    )


def add_seed_by(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed-by",
        choices=[SEED_BY_PROBE],
        help="seed torch, numpy, random and the hash seed before the first line of the script",
    )


def add_steps(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--steps", type=count, metavar="N", help="end each run after so many optimizer steps on every rank"
    )


def add_jobs(parser: argparse.ArgumentParser, default: str = "the configuration's, or 1") -> None:
    parser.add_argument(
        "-j",
        "--jobs",
        type=jobs,
        metavar="N|auto",
        help=f"runs at a time; `auto` for what cores and memory allow (default: {default})",
    )


def add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration file (default: the nearest pyproject.toml)"
    )


def add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-cache", action="store_true", help="ignore the cache, and learn the golden of a git ref again"
    )


def add_strict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--strict",
        action="store_true",
        help="fail, not warn, where the candidate cannot be compared with the golden run",
    )


def add_fail_fast(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fail-fast", action="store_true", help="end a run at its first incident")


def configuration(arguments: argparse.Namespace) -> Config:
    """The configuration that the command works with. Raises `ConfigError`."""
    return load(Path.cwd(), arguments.config)


def chosen(config: Config, names: Sequence[str]) -> list[PipelineSpec]:
    """The named pipelines, or all; each once. Raises `ConfigError` for unknown names and when there is none."""
    if not config.pipelines:
        raise ConfigError(
            f"{config.source}: configures no pipeline. Add a [tool.traincheck.pipelines.NAME] table with a `run` line."
        )
    for name in names:
        if name not in config.pipelines:
            near = difflib.get_close_matches(name, config.pipelines, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            known = ", ".join(config.pipelines)
            raise ConfigError(f"{config.source}: configures no pipeline {name!r}.{hint} Configured: {known}.")
    return [config.pipelines[name] for name in (dict.fromkeys(names) or config.pipelines)]


def output_file(text: str) -> Path:
    path = Path(text)
    if not text or path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a directory; give the path of a file")
    return path


def export(text: str) -> ExportTarget:
    try:
        return export_target(text)
    except ReportError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def seeds(text: str) -> tuple[int, ...]:
    values = tuple(seed(part) for part in text.split(","))
    if len(set(values)) != len(values):
        raise argparse.ArgumentTypeError(f"{text!r} names a seed twice; name each once")
    return values


def seed(text: str) -> int:
    if not text.strip().isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number that is not negative")
    return int(text)


def seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value


def day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no day; write it like 2027-01-31") from error


def command(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("the command is empty; give it as you type it, in quotes")
    return text


def ref(text: str) -> str:
    # Left alone it would mean "as configured", which is not what somebody wants who names a variable.
    if not text.strip():
        raise argparse.ArgumentTypeError("the ref is empty; check the variable that it comes from, or leave it out")
    return text


def with_seed_argument(words: Sequence[str]) -> list[str]:
    """The command line with `--seed-arg` and its value as one word. argparse takes a value such as `--seed={seed}` for
    an option otherwise, as it begins with a dash and holds no space.
    """
    found: list[str] = []
    for word in words:
        if found and found[-1] == "--seed-arg" and "{seed}" in word:
            found[-1] += f"={word}"
        else:
            found.append(word)
    return found


def split_command(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words of `traincheck run`, `audit` and `init`, and those behind `--`: a command with its options."""
    if list(words[:1]) not in (["run"], ["audit"], ["init"]) or "--" not in words:
        return list(words), []
    place = list(words).index("--")
    return list(words[:place]), list(words[place + 1 :])


def seed_argument(text: str) -> str:
    if "{seed}" not in text:
        raise argparse.ArgumentTypeError(f"{text!r} lacks {{seed}}; write it like '--seed {{seed}}'")
    return text


def count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def jobs(text: str) -> Jobs:
    found = jobs_of(text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs; write a whole number above 0, or auto")
    return found


def share(text: str) -> float:
    """A share of one, or a percentage: "0.9", "90%" and "90" are the same."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if text.endswith("%") or value > 1:
        value /= 100
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; write it like 0.9 or 90%")
    return value


def link(text: str) -> str:
    if reason := unusable_link(text):
        raise argparse.ArgumentTypeError(f"{text!r} {reason}; give a path below this directory, like data")
    return text


def name(text: str) -> str:
    # It becomes a directory below --artifacts, and must not lead out of it.
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no usable name; use letters, digits, `_`, `-` and `.`")
    return text
