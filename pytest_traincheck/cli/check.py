"""`traincheck check`: configured pipelines of the working tree against their goldens."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from functools import partial

from pytest_traincheck.check.result import CheckResult
from pytest_traincheck.cli import options, output, reports, streams
from pytest_traincheck.config import STORED, Config, PipelineSpec
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.input_error import InputError
from pytest_traincheck.launch.progress import Progress
from pytest_traincheck.launch.sides import SideError, resolve_side
from pytest_traincheck.workflow.check import check_stored, read_stored
from pytest_traincheck.workflow.check_against import check_live
from pytest_traincheck.workflow.engine import default_engine
from pytest_traincheck.workflow.exceptions import checked_rules, judge_exceptions, needless, stored_rules, today
from pytest_traincheck.workflow.goldens import unused_goldens, unused_text
from pytest_traincheck.workflow.history import note_checks


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("check", help="check configured pipelines against their goldens")
    parser.add_argument("names", nargs="*", metavar="NAME", help="pipelines (default: all)")
    parser.add_argument(
        "--golden", type=options.ref, metavar="stored|REF", help="instead of what the configuration says"
    )
    options.add_strict(parser)
    options.add_fail_fast(parser)
    parser.add_argument("--audit", action="store_true", help="hold each run against ready-made rules, too")
    options.add_cache(parser)
    options.add_jobs(parser)
    options.add_config(parser)
    reports.add_reports(parser, of_checks=True)
    options.add_history(parser)
    reports.add_github(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        config = options.configuration(arguments)
        config = replace(config, strict=config.strict or arguments.strict, fail_fast=arguments.fail_fast)
        config = replace(config, audits=arguments.audit)
        specs = options.chosen(config, arguments.names)
    except InputError as error:
        return reports.refuse(arguments, [(" ".join(arguments.names), error)])
    golden = arguments.golden or config.golden
    # Everything that can be wrong with the input is found before minutes are spent on the first pipeline.
    if errors := _bad_goldens(config, specs, golden):
        return reports.refuse(arguments, errors)
    results: list[CheckResult] = []
    progress = streams.progress()
    with closing(_check(arguments, config, specs, golden, progress)) as found:
        for spec in specs:
            try:
                result = next(found)
            except InputError as error:
                return reports.refuse(arguments, [(spec.name, error)])
            if not results and not arguments.names and golden == STORED:
                unused = unused_text(unused_goldens(config), config.root, with_command=False)
                result = replace(result, notes=(*result.notes, *unused))
            with progress.aside():
                output.show(result)
                output.show_next(result)
            results.append(result)
    if not arguments.names:
        for note in needless(config, results, today()):
            streams.tell(f"note: {note}")
    if (exceptions := _exceptions(config, golden, results, everything=not arguments.names)) is not None:
        print()
        output.show(exceptions)
        results.append(exceptions)
    if arguments.history is not None:
        note_checks(arguments.history, "check", config, results, golden)
    return reports.finish(arguments, results, {spec.name: config.root / spec.cwd for spec in specs})


def _check(
    arguments: argparse.Namespace, config: Config, specs: list[PipelineSpec], golden: str, progress: Progress
) -> Generator[CheckResult, None, None]:
    """The results, in the order of the pipelines, each as soon as it is there."""
    engine = default_engine(arguments.jobs or config.jobs or 1)
    progress.expect(len(specs))
    check: Callable[..., CheckResult] = partial(
        check_stored, config, progress=progress, artifacts=arguments.artifacts, engine=engine
    )
    if golden != STORED:
        check = partial(
            check_live,
            config,
            ref=golden,
            progress=progress,
            use_cache=not arguments.no_cache,
            artifacts=arguments.artifacts,
            engine=engine,
        )
    return engine.overlap.each([partial(check, spec=spec) for spec in specs])


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


def _exceptions(config: Config, golden: str, results: list[CheckResult], *, everything: bool) -> CheckResult | None:
    """Exceptions on file that apply no more. One may be for any pipeline, so all of their rules must be at hand."""
    if not config.accept:
        return None
    known = None
    if everything:
        known = stored_rules(config) if golden == STORED else checked_rules(config, results)
    return judge_exceptions(config, known, today())
