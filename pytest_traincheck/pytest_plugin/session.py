"""One pytest session with traincheck active: collection, the summary, reports, and results from xdist workers."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Generator, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from pytest_traincheck.check.result import CheckResult, Outcome
from pytest_traincheck.check.serialise import from_plain, to_plain
from pytest_traincheck.config import DEFAULT_STORE, Config, ConfigError, PipelineSpec, load
from pytest_traincheck.golden.store import golden_path
from pytest_traincheck.history.record import HistoryError
from pytest_traincheck.observing import extensions
from pytest_traincheck.plugins import PluginError, in_session
from pytest_traincheck.pytest_plugin import markers, summary
from pytest_traincheck.pytest_plugin.ahead import stretches
from pytest_traincheck.pytest_plugin.checks import CHECKS, checks_for
from pytest_traincheck.pytest_plugin.distribution import Distribution
from pytest_traincheck.pytest_plugin.exceptions import PROPERTY as EXCEPTION
from pytest_traincheck.pytest_plugin.exceptions import ExceptionsFile
from pytest_traincheck.pytest_plugin.items import GoldenFile, Plan, TraincheckItem, pipeline_of
from pytest_traincheck.pytest_plugin.learned import learned_of
from pytest_traincheck.pytest_plugin.notes import is_complete, notes
from pytest_traincheck.pytest_plugin.once import said_once
from pytest_traincheck.pytest_plugin.pages import LinkToPage
from pytest_traincheck.pytest_plugin.progress import progress_of
from pytest_traincheck.pytest_plugin.refreshing import RefreshSession
from pytest_traincheck.pytest_plugin.selection import Reported, failure_of
from pytest_traincheck.pytest_plugin.settings import Settings, old_names, settings_of
from pytest_traincheck.relations import relations
from pytest_traincheck.report import reporter
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.shares import PROPERTY as SHARE
from pytest_traincheck.workflow.exceptions import judge_exceptions, today
from pytest_traincheck.workflow.infer import runs_of

WORKER_KEY = "traincheck"


def register(config: pytest.Config) -> None:
    """Switch traincheck on for this session. Raises `pytest.UsageError` for a configuration that cannot be used."""
    settings = settings_of(config)
    for name in old_names(config) if not hasattr(config, "workerinput") else ():
        print(f"traincheck: note: {name}", file=sys.stderr)
    _take_relations(config)
    try:
        loaded = load(config.rootpath)
    except ConfigError as error:
        # Only the fixture may be in use, which needs no configuration; whether it is shows after collection.
        if not _is_absent(config.rootpath):
            raise pytest.UsageError(str(error)) from error
        config.pluginmanager.register(Unconfigured(settings, str(error)), "traincheck-session")
        _register_refresh(config, settings, config.rootpath / DEFAULT_STORE)
        return
    loaded = replace(loaded, strict=loaded.strict or settings.strict, fail_fast=settings.fail_fast)
    loaded = replace(loaded, audits=settings.audit)
    selected = _selected(loaded, settings)
    config.stash[CHECKS] = checks_for(loaded, settings, learned_of(config), progress_of(config))
    wanted = _wanted(config, loaded, settings, selected)
    config.pluginmanager.register(Session(config, loaded, settings, selected, wanted), "traincheck-session")
    _register_refresh(config, settings, loaded.store)
    _register_others(config, loaded, settings, selected)


def _take_relations(config: pytest.Config) -> None:
    """Learn and check with what plugins and conftest files of this session give, from now to its end."""
    with ExitStack() as stack:
        stack.enter_context(in_session(config.pluginmanager))
        try:
            relations()
            extensions()
        except PluginError as error:
            raise pytest.UsageError(str(error)) from error
        config.add_cleanup(stack.pop_all().close)


def _register_others(
    config: pytest.Config, loaded: Config, settings: Settings, selected: Mapping[str, PipelineSpec]
) -> None:
    """What has to do with markers and with other plugins."""
    markers.register(config, loaded.pipelines)
    goldens = [_node_id(golden_path(loaded.store, name), config.rootpath) for name in selected]
    config.pluginmanager.register(Distribution(goldens), "traincheck-distribution")
    if settings.html is not None and config.getoption("htmlpath", None) and not settings.refresh:
        config.pluginmanager.register(LinkToPage(config, settings.html), "traincheck-page")


def _register_refresh(config: pytest.Config, settings: Settings, store: Path) -> None:
    if settings.refresh:
        config.pluginmanager.register(RefreshSession(config, store, settings.acceptance), "traincheck-refresh")


def _is_absent(start: Path) -> bool:
    """Whether there is no configuration at all, as opposed to one with a mistake in it."""
    return not any(
        (directory / "traincheck.toml").exists() or "traincheck" in _text(directory / "pyproject.toml")
        for directory in (start, *start.parents)
    )


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def _selected(config: Config, settings: Settings) -> dict[str, PipelineSpec]:
    for name in settings.pipelines:
        if name not in config.pipelines:
            near = difflib.get_close_matches(name, config.pipelines, n=1)
            known = ", ".join(config.pipelines) or "none"
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise pytest.UsageError(
                f"--traincheck-pipeline: {config.source} configures no pipeline {name!r}.{hint} Configured: {known}."
            )
    return {
        name: spec for name, spec in config.pipelines.items() if not settings.pipelines or name in settings.pipelines
    }


def _wanted(
    config: pytest.Config, loaded: Config, settings: Settings, selected: Mapping[str, PipelineSpec]
) -> frozenset[str]:
    """Pipelines to add to what pytest collects by itself, and takes arguments that it could not resolve out.

    Every configured pipeline, whatever `testpaths` says; but when the user names golden files, those alone.
    """
    store = loaded.store.resolve()
    named: set[str] = set()
    inside = False
    kept = []
    for argument in config.args:
        path = (config.invocation_params.dir / argument.split("::")[0]).resolve()
        if path == store:
            named.update(selected)
        if path == store or store in path.parents:
            inside = True
            if not path.exists():
                # A golden that is still to be learned has no file yet, but it has an item that says so.
                if path != store and path.stem not in selected:
                    raise pytest.UsageError(
                        f"There is no golden {path}, and no pipeline {path.stem!r} is configured in {loaded.source}."
                    )
                named.update(selected if path == store else (path.stem,))
                continue
        kept.append(argument)
    config.args[:] = kept
    if inside:
        return frozenset(named)
    typed = config.args_source is pytest.Config.ArgsSource.ARGS
    # Switched on by the ini file or by a refresh, the paths that were typed say what the user wants.
    return frozenset() if typed and not settings.requested else frozenset(selected)


@dataclass(frozen=True, eq=False)
class Unconfigured:
    """Stands in for the session when nothing is configured: fine for the fixture, an error for anything else."""

    settings: Settings
    message: str

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.settings.requested and not uses_fixture(items):
            raise pytest.UsageError(f"--traincheck: {self.message}")


def uses_fixture(items: Iterable[pytest.Item]) -> bool:
    return any("traincheck" in getattr(item, "fixturenames", ()) for item in items)


# pluggy keeps plugins in sets, so they are compared by identity.
@dataclass(eq=False)
class Session:
    """The hooks of an active session."""

    config: pytest.Config
    loaded: Config
    settings: Settings
    selected: Mapping[str, PipelineSpec]
    wanted: frozenset[str]
    collected: set[str] = field(default_factory=set)
    from_workers: dict[str, CheckResult] = field(default_factory=dict)
    exceptions: set[str] = field(default_factory=set)
    reported: Reported = field(default_factory=Reported)
    written: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    """Workflow commands for GitHub, written last."""
    notes: list[str] = field(default_factory=list)

    @property
    def golden(self) -> str:
        return self.settings.golden or self.loaded.golden

    def pytest_report_header(self) -> str:
        mode = "refresh" if self.settings.refresh else f"golden: {self.golden}"
        return f"traincheck: {mode}, pipelines: {', '.join(self.selected) or 'none'}"

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> GoldenFile | None:
        for spec in self.selected.values():
            if file_path.name == f"{spec.name}.jsonl" and file_path.parent.resolve() == self.loaded.store.resolve():
                return self._file(parent, spec)
        return None

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        """Add the pipelines that pytest did not come across, before `-k`, `--lf` and the user's own hooks look."""
        for spec in self.selected.values():
            if spec.name in self.wanted and spec.name not in self.collected:
                items.extend(session.genitems(self._file(session, spec)))
        if self.loaded.accept and self.wanted and not self.settings.refresh:
            file: ExceptionsFile = ExceptionsFile.from_parent(
                session, path=self.loaded.source, loaded=self.loaded, golden=self.golden,
                everything=not self.settings.pipelines,
            )  # fmt: skip
            items.extend(session.genitems(file))
        if self.settings.requested and not self.selected and not uses_fixture(items):
            raise pytest.UsageError(
                f"--traincheck: {self.loaded.source} configures no pipeline, so nothing would be checked. "
                "Add a [tool.traincheck.pipelines.NAME] table."
            )

    def _file(self, parent: pytest.Collector, spec: PipelineSpec) -> GoldenFile:
        self.collected.add(spec.name)
        path = golden_path(self.loaded.store, spec.name)
        file: GoldenFile = GoldenFile.from_parent(
            parent, path=path, spec=spec, plan=Plan(self.golden, self.settings.refresh, self.settings.audit)
        )
        return file

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what is left after all that selects, so that nothing is begun which no item asks for."""
        checks = self.config.stash[CHECKS]
        checks.ahead.stretches = stretches(session.items, pipeline_of, lambda item: isinstance(item, TraincheckItem))
        needed = {spec.name: spec for item in session.items if (spec := pipeline_of(item)) is not None}
        checks.progress.expect(sum(runs_of(spec) if self.settings.refresh else 1 for spec in needed.values()))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(
        self, item: pytest.Item, nextitem: pytest.Item | None
    ) -> Generator[None, object, object]:
        """What is under way ends before a test of the user's begins."""
        done = yield
        if isinstance(item, TraincheckItem) and not isinstance(nextitem, TraincheckItem):
            self.config.stash[CHECKS].ahead.end()
        return done

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A skip is reported at the golden file, not at the line of this package that raised it."""
        report = yield
        if (
            isinstance(item, TraincheckItem)
            and call.excinfo is not None
            and isinstance(call.excinfo.value, pytest.skip.Exception)
        ):
            report.longrepr = (str(item.path), item.line + 1, f"Skipped: {call.excinfo.value}")
        return report

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """Say in `-v` how many of its rules an item that passed rests on, where that is not all of them."""
        properties = dict(report.user_properties) if report.when == "call" and report.passed else {}
        share = str(properties.get(SHARE, ""))
        return ("passed", ".", f"PASSED ({share})") if " of " in share else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Let no pipeline that ran and failed end green because the items that say so were not selected."""
        try:
            done = yield
        finally:
            self.config.stash[CHECKS].ahead.end()
        if not self.settings.refresh and not hasattr(self.config, "workerinput"):
            for result in self.check_results():
                if unreported := self.reported.unreported(result):
                    path = golden_path(self.loaded.store, result.pipeline)
                    node = _node_id(path, self.config.rootpath)
                    session.testscollected += 1  # It is counted with the items, in pytest's progress and its totals.
                    for report in failure_of(result, unreported, path, node):
                        self.config.hook.pytest_runtest_logreport(report=report)
        return done

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reported.note(report)
        if report.failed:
            self.exceptions.update(str(value) for key, value in report.user_properties if key == EXCEPTION)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workerinput"):
            self.config.workeroutput[WORKER_KEY] = self._to_controller()  # type: ignore[attr-defined]
            return
        self._take_notes()
        if not self.config.getoption("collectonly") and not self.settings.refresh:
            try:
                self._write_reports()
            except (ReportError, HistoryError) as error:
                self.written.append(str(error))
                session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _to_controller(self) -> str:
        """As text, since a worker may send built-in types only."""
        results = self.config.stash[CHECKS].results.values()
        return json.dumps(
            {"results": [to_plain(result) for result in results], "used": sorted(learned_of(self.config).used)}
        )

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take a worker's results. Two workers may have run one pipeline; the worse result counts."""
        # A worker that crashed has no output.
        sent = getattr(node, "workeroutput", {}).get(WORKER_KEY)
        if sent is None:
            return
        content = json.loads(sent)
        for result in map(from_plain, content["results"]):
            former = self.from_workers.get(result.pipeline)
            if former is None or _severity(result) > _severity(former):
                self.from_workers[result.pipeline] = result
        learned_of(self.config).used.update(content["used"])

    def check_results(self) -> list[CheckResult]:
        """What the pipelines that ran came to, here and in workers, in the order of the configuration."""
        results = {**self.config.stash[CHECKS].results, **self.from_workers}
        return [results[name] for name in self.selected if name in results]

    def results(self) -> list[CheckResult]:
        """The same, and the exceptions on file that were found wanting."""
        found = self.check_results()
        excused = replace(self.loaded, accept=tuple(a for a in self.loaded.accept if a.name in self.exceptions))
        # These have failed, and one that has not expired did so for want of a rule.
        exceptions = judge_exceptions(excused, (), today())
        return [*found, exceptions] if exceptions is not None else found

    def _take_notes(self) -> None:
        if not self.wanted or not is_complete(self.config, self.settings):
            return
        found = notes(self.config, self.loaded, self.settings, learned_of(self.config).used, self.results())
        refreshing = self.config.pluginmanager.get_plugin("traincheck-refresh")
        into = self.notes if refreshing is None else refreshing.said
        into += [f"note: {note}" for note in found]

    def _write_reports(self) -> None:
        results = self.results()
        if self.settings.json is not None:
            from pytest_traincheck.report.json_report import write_json

            write_json(self.settings.json, results)
            self.written.append(f"JSON: {self.settings.json}")
        if self.settings.html is not None:
            from pytest_traincheck.report.html import write_html

            write_html(self.settings.html, results)
            self.written.append(f"report: {self.settings.html}")
        if results:
            from pytest_traincheck.report.github_step import publish

            directories = {name: self.loaded.root / spec.cwd for name, spec in self.selected.items()}
            publish(self.settings.github, results, directories, self.commands.append)
        if self.settings.history is not None and results:
            from pytest_traincheck.workflow.history import note_checks

            note_checks(self.settings.history, "pytest", self.loaded, results, self.settings.golden or "")
            self.written.append(f"history: {self.settings.history}")
        for target in self.settings.write:
            reporter.write(target, results)
            self.written.append(f"{target.reporter.name}: {target.path}")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, object, object]:
        """Before pytest's own sections, so that the cause is what a person reads first."""
        results = self.results()
        if results or self.written or self.notes:
            expected = {result.pipeline for result in results if self.reported.is_expected(result)}
            summary.show(terminalreporter, results, (), (*self.notes, *self.written), self.commands, expected)
        with said_once(terminalreporter, results):
            return (yield)


def _severity(result: CheckResult) -> int:
    return (Outcome.PASS, Outcome.FAIL, Outcome.ERROR).index(result.outcome)


def _node_id(path: Path, root: Path) -> str:
    """As pytest names a file: relative to the root directory where it lies in it."""
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
