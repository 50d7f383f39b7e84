"""`traincheck check`: configured pipelines of the working tree against their goldens."""

from __future__ import annotations

import argparse
import datetime

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.cli import options, output
from pytest_traincheck.config import STORED, Config, PipelineSpec
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.launch.progress import progress_for
from pytest_traincheck.launch.sides import SideError, resolve_side
from pytest_traincheck.workflow import INPUT_ERRORS, check_live, check_stored, read_stored
from pytest_traincheck.workflow.policy import stale


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("check", help="check configured pipelines against their goldens")
    parser.add_argument("names", nargs="*", metavar="NAME", help="pipelines (default: all)")
    parser.add_argument("--golden", metavar="stored|REF", help="instead of what the configuration says")
    options.add_cache(parser)
    options.add_config(parser)
    options.add_reports(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        config = options.configuration(arguments)
        specs = options.chosen(config, arguments.names)
    except INPUT_ERRORS as error:
        return output.refuse(arguments, [(" ".join(arguments.names), error)])
    golden = arguments.golden or config.golden
    # Everything that can be wrong with the input is found before minutes are spent on the first pipeline.
    if errors := _bad_goldens(config, specs, golden):
        return output.refuse(arguments, errors)
    results: list[CheckResult] = []
    for spec in specs:
        progress = progress_for()
        try:
            if golden == STORED:
                result = check_stored(config, spec, progress, artifacts=arguments.artifacts)
            else:
                result = check_live(
                    config, spec, golden, progress, use_cache=not arguments.no_cache, artifacts=arguments.artifacts
                )
        except INPUT_ERRORS as error:
            return output.refuse(arguments, [(spec.name, error)])
        output.show(result)
        output.show_next(result)
        results.append(result)
    for line in _stale_exceptions(config, golden):
        print(f"note: {line}")
    return output.finish(arguments, results)


def _bad_goldens(config: Config, specs: list[PipelineSpec], golden: str) -> list[tuple[str, Exception]]:
    errors: list[tuple[str, Exception]] = []
    if golden != STORED:
        try:
            resolve_side(golden, config.root)
        except SideError as error:
            errors.append((specs[0].name, error))
        return errors
    for spec in specs:
        try:
            read_stored(config, spec)
        except GoldenError as error:
            errors.append((spec.name, error))
    return errors


def _stale_exceptions(config: Config, golden: str) -> tuple[str, ...]:
    """Exceptions on file that apply no more; an exception may be for any pipeline, so all goldens must be at hand."""
    if not config.accept or golden != STORED:
        return ()
    try:
        goldens = [read_stored(config, spec) for spec in config.pipelines.values()]
    except GoldenError:
        return ()
    today = datetime.datetime.now(datetime.timezone.utc).date()
    return stale(config.accept, (rule for item in goldens for rule in item.invariants), today)
