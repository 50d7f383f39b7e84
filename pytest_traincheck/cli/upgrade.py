"""`traincheck upgrade`: golden and candidate code with old and new libraries: which of the two broke what."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from functools import partial

from pytest_traincheck.cli import options, reports, streams
from pytest_traincheck.cli.status import Status
from pytest_traincheck.cli.status_of_results import status_of
from pytest_traincheck.input_error import InputError
from pytest_traincheck.launch.sides import resolve_side
from pytest_traincheck.report.upgrade.html import write_html
from pytest_traincheck.report.upgrade.json_report import write_json
from pytest_traincheck.report.upgrade.junit import write_junit
from pytest_traincheck.report.upgrade.result import UpgradeResult
from pytest_traincheck.report.upgrade.terminal import render_upgrade
from pytest_traincheck.workflow.engine import default_engine
from pytest_traincheck.workflow.upgrade import golden_ref, upgrade
from pytest_traincheck.workflow.upgrade_environments import find_environments


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("upgrade", help="check pipelines with other library versions: code or library?")
    parser.add_argument("names", nargs="*", metavar="NAME", help="pipelines (default: all)")
    new = parser.add_mutually_exclusive_group(required=True)
    new.add_argument(
        "--with", dest="requirements", action="append", metavar="REQUIREMENT",
        help='what the new environment has, like "transformers==4.51.3"; repeatable',
    )  # fmt: skip
    new.add_argument("--python", metavar="EXE", help="interpreter of an existing environment")
    parser.add_argument(
        "--golden",
        type=options.ref,
        metavar="DIR|REF",
        help="code that trains correctly (default: the configuration's, or HEAD)",
    )
    options.add_cache(parser)
    options.add_jobs(parser)
    options.add_config(parser)
    reports.add_reports(parser)
    parser.set_defaults(handle=run)


def run(arguments: argparse.Namespace) -> int:
    try:
        config = options.configuration(arguments)
        specs = options.chosen(config, arguments.names)
        # Everything that can be wrong with the input is found before minutes are spent on an installation.
        ref = golden_ref(config, arguments.golden)
        resolve_side(ref, config.root)
        environments = find_environments(config, arguments.requirements or (), arguments.python, streams.progress())
    except InputError as error:
        return reports.refuse(arguments, [(" ".join(arguments.names), error)])
    results: list[UpgradeResult] = []
    engine = default_engine(arguments.jobs or config.jobs or 1)
    progress = streams.progress()
    tasks = [
        partial(
            upgrade,
            config,
            spec,
            environments,
            ref,
            progress,
            use_cache=not arguments.no_cache,
            artifacts=arguments.artifacts,
            engine=engine,
        )
        for spec in specs
    ]
    with closing(engine.overlap.each(tasks)) as found:
        for spec in specs:
            try:
                result = next(found)
            except InputError as error:
                return reports.refuse(arguments, [(spec.name, error)])
            with progress.aside():
                _show(result, first=not results)
            results.append(result)
    return _finish(arguments, results)


def _show(result: UpgradeResult, *, first: bool) -> None:
    if not first:
        print()
    streams.show(render_upgrade(result, width=streams.width(), detail=streams.detail()))


def _finish(arguments: argparse.Namespace, results: Sequence[UpgradeResult]) -> Status:
    for path, write in ((arguments.json, write_json), (arguments.junit, write_junit), (arguments.html, write_html)):
        if path is not None:
            write(path, results)
    return status_of(result.last for result in results)
