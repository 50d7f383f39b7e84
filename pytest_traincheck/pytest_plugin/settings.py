"""The plugin's options as one value, from the command line or the ini file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from pytest_traincheck.jobs import Jobs, jobs_of
from pytest_traincheck.plugins import PluginError, in_session
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.github_step import Mode
from pytest_traincheck.report.reporter import Target, target
from pytest_traincheck.workflow.refresh_intent import Acceptance


@dataclass(frozen=True)
class Settings:
    """What the user asked for. `requested` is true when it was by the words `--traincheck` on the command line."""

    requested: bool
    golden: str | None
    no_cache: bool
    strict: bool
    fail_fast: bool
    audit: bool
    refresh: bool
    acceptance: Acceptance
    pipelines: tuple[str, ...]
    html: Path | None
    json: Path | None
    write: tuple[Target, ...]
    artifacts: Path | None
    history: Path | None
    github: Mode
    jobs: Jobs | None = None
    """None where nothing is said."""


def settings_of(config: pytest.Config) -> Settings:
    return Settings(
        requested=bool(config.getoption("traincheck")),
        golden=_golden(config),
        no_cache=bool(config.getoption("traincheck_no_cache") or config.getini("traincheck_no_cache")),
        strict=bool(config.getoption("traincheck_strict") or config.getini("traincheck_strict")),
        fail_fast=bool(config.getoption("traincheck_fail_fast") or config.getini("traincheck_fail_fast")),
        audit=bool(config.getoption("traincheck_audit") or config.getini("traincheck_audit")),
        refresh=bool(config.getoption("traincheck_refresh") or config.getini("traincheck_refresh")),
        acceptance=Acceptance(
            tuple(config.getoption("traincheck_accept") or ()), bool(config.getoption("traincheck_accept_all"))
        ),
        pipelines=tuple(config.getoption("traincheck_pipeline") or config.getini("traincheck_pipeline")),
        html=_path(config, "traincheck_html") or _path(config, "traincheck_report"),
        json=_path(config, "traincheck_json"),
        write=_targets(config),
        artifacts=_path(config, "traincheck_artifacts"),
        history=_path(config, "traincheck_history"),
        github=_github(config),
        jobs=_jobs(config),
    )


def _golden(config: pytest.Config) -> str | None:
    typed: str | None = config.getoption("traincheck_golden")
    if typed is not None and not typed.strip():
        raise pytest.UsageError(
            "--traincheck-golden is empty. Check the variable that it comes from, or leave the option out."
        )
    return typed or config.getini("traincheck_golden") or None


def _jobs(config: pytest.Config) -> Jobs | None:
    typed = config.getoption("traincheck_jobs") or config.getini("traincheck_jobs")
    jobs = jobs_of(typed)
    if typed and jobs is None:
        raise pytest.UsageError(f"traincheck_jobs is {typed!r}. Write a whole number above 0, or auto.")
    # The workers of xdist are the jobs then, and none of them knows which pipelines are left to it.
    return 1 if hasattr(config, "workerinput") else jobs


def _github(config: pytest.Config) -> Mode:
    value = config.getoption("traincheck_github") or config.getini("traincheck_github") or Mode.AUTO.value
    try:
        return Mode(value)
    except ValueError as error:
        raise pytest.UsageError(f"traincheck_github is {value!r}. Write auto, on or off.") from error


def _targets(config: pytest.Config) -> tuple[Target, ...]:
    """Reports in further formats. Raises `pytest.UsageError` for one that there is not."""
    typed = config.getoption("traincheck_write")
    directory = config.invocation_params.dir if typed else config.rootpath
    try:
        with in_session(config.pluginmanager):
            return tuple(target(text, directory) for text in typed or config.getini("traincheck_write"))
    except (ReportError, PluginError) as error:
        raise pytest.UsageError(f"traincheck_write: {error}") from error


def old_names(config: pytest.Config) -> list[str]:
    """What is to be said of options that are used by the name they had before."""
    if config.getoption("traincheck_report"):
        return ["--traincheck-report is called --traincheck-html now"]
    return ["traincheck_report is called traincheck_html now"] if config.getini("traincheck_report") else []


def _path(config: pytest.Config, name: str) -> Path | None:
    """A path typed on the command line is relative to where it was typed, one in the ini file to the root."""
    if typed := config.getoption(name):
        return config.invocation_params.dir / str(typed)
    if configured := config.getini(name):
        return config.rootpath / str(configured)
    return None
