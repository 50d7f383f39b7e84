"""One pytest session with traincheck active: collection, the summary, reports, and results from xdist workers."""

from __future__ import annotations

import datetime
import difflib
import json
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pytest_traincheck.check.result import CheckResult, Outcome
from pytest_traincheck.check.serialise import from_plain, to_plain
from pytest_traincheck.config import STORED, Config, ConfigError, PipelineSpec, load
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.store import golden_path, read
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.testing import summary
from pytest_traincheck.testing.checks import CHECKS, checks_for
from pytest_traincheck.testing.items import GoldenFile, PipelineItem, Plan
from pytest_traincheck.testing.settings import Settings, settings_of
from pytest_traincheck.workflow.policy import stale
from pytest_traincheck.workflow.refresh_text import refresh_text

WORKER_KEY = "traincheck"


def register(config: pytest.Config) -> None:
    """Switch traincheck on for this session. Raises `pytest.UsageError` for a configuration that cannot be used."""
    settings = settings_of(config)
    try:
        loaded = load(config.rootpath)
    except ConfigError as error:
        # Only the fixture may be in use, which needs no configuration; whether it is shows after collection.
        if not _is_absent(config.rootpath):
            raise pytest.UsageError(str(error)) from error
        config.pluginmanager.register(Unconfigured(settings, str(error)), "traincheck-session")
        return
    selected = _selected(loaded, settings)
    config.stash[CHECKS] = checks_for(loaded, settings)
    wanted = _wanted(config, loaded, settings, selected)
    config.pluginmanager.register(Session(config, loaded, settings, selected, wanted), "traincheck-session")


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
    refreshed_by_workers: dict[str, str] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)

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
        if self.settings.requested and not self.selected and not uses_fixture(items):
            raise pytest.UsageError(
                f"--traincheck: {self.loaded.source} configures no pipeline, so nothing would be checked. "
                "Add a [tool.traincheck.pipelines.NAME] table."
            )

    def _file(self, parent: pytest.Collector, spec: PipelineSpec) -> GoldenFile:
        self.collected.add(spec.name)
        path = golden_path(self.loaded.store, spec.name)
        file: GoldenFile = GoldenFile.from_parent(
            parent, path=path, spec=spec, plan=Plan(self.golden, self.settings.refresh)
        )
        return file

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """A skip is reported at the golden file, not at the line of this package that raised it."""
        report = yield
        if (
            isinstance(item, PipelineItem)
            and call.excinfo is not None
            and isinstance(call.excinfo.value, pytest.skip.Exception)
        ):
            report.longrepr = (str(item.path), item.line + 1, f"Skipped: {call.excinfo.value}")
        return report

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self.config, "workerinput"):
            self.config.workeroutput[WORKER_KEY] = self._to_controller()  # type: ignore[attr-defined]
        elif not self.config.getoption("collectonly") and not self.settings.refresh:
            try:
                self._write_reports()
            except ReportError as error:
                self.written.append(str(error))
                session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def _to_controller(self) -> str:
        """As text, since a worker may send built-in types only."""
        checks = self.config.stash[CHECKS]
        return json.dumps(
            {
                "results": [to_plain(result) for result in checks.results.values()],
                "refreshed": {name: refresh_text(report) for name, report in checks.refreshed.items()},
            }
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
        self.refreshed_by_workers.update(content["refreshed"])

    def results(self) -> list[CheckResult]:
        """All results, from here and from workers, in the order of the configuration."""
        results = {**self.config.stash[CHECKS].results, **self.from_workers}
        return [results[name] for name in self.selected if name in results]

    def _write_reports(self) -> None:
        results = self.results()
        if self.settings.json is not None:
            from pytest_traincheck.report.json_report import write_json

            write_json(self.settings.json, results)
            self.written.append(f"JSON: {self.settings.json}")
        if self.settings.report is not None:
            from pytest_traincheck.report.html import write_html

            write_html(self.settings.report, results)
            self.written.append(f"report: {self.settings.report}")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None, object, object]:
        """Before pytest's own sections, so that the cause is what a person reads first."""
        refreshed = {
            **{name: refresh_text(report) for name, report in self.config.stash[CHECKS].refreshed.items()},
            **self.refreshed_by_workers,
        }
        results = self.results()
        if results or refreshed or self.written:
            notes = (*self._stale_exceptions(), *self.written)
            summary.show(terminalreporter, results, refreshed, notes)
        return (yield)

    def _stale_exceptions(self) -> tuple[str, ...]:
        if not self.loaded.accept or self.golden != STORED:
            return ()
        today = datetime.datetime.now(datetime.timezone.utc).date()
        try:
            goldens = [read(golden_path(self.loaded.store, name)) for name in self.loaded.pipelines]
        except GoldenError:
            # What cannot be read has failed already, and says nothing about exceptions.
            return ()
        return stale(self.loaded.accept, (rule for golden in goldens for rule in golden.invariants), today)


def _severity(result: CheckResult) -> int:
    return (Outcome.PASS, Outcome.FAIL, Outcome.ERROR).index(result.outcome)
