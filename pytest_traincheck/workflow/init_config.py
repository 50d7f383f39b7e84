"""A pipeline as text of the configuration, appended to the file that is there, which keeps every byte of its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import tomlkit

from pytest_traincheck.config import (
    DEFAULT_SEEDS,
    DEFAULT_TIMEOUT,
    PYPROJECT,
    Config,
    ConfigError,
    PipelineSpec,
    load_text,
)
from pytest_traincheck.scripts.proposal import Proposal
from pytest_traincheck.workflow.starting import Place
from pytest_traincheck.workflow.trial import Trial

_HEAD = "# What `traincheck` and `pytest --traincheck` check.\n"
_PATIENCE = 5
"""A run may take so many times as long as the one that was tried."""
_ROUND = 60
SEEDS = (1, 2, 3)
"""Many scripts take a seed of 0 for none: `if args.seed: ...`."""


def spec_of(proposal: Proposal, trial: Trial | None = None) -> PipelineSpec:
    """The pipeline that is proposed, with a timeout that fits how long its try took."""
    wanted = trial.seconds * _PATIENCE if trial is not None else 0.0
    timeout = max(DEFAULT_TIMEOUT, float(math.ceil(wanted / _ROUND) * _ROUND))
    return PipelineSpec(
        proposal.name,
        proposal.run,
        seed_arg=proposal.seed_arg,
        seed_by=proposal.seed_by,
        seeds=SEEDS if proposal.seed_arg is not None else DEFAULT_SEEDS,
        steps=proposal.steps,
        link=proposal.link,
        timeout=timeout,
    )


def table_of(spec: PipelineSpec, source: Path) -> str:
    """The table that configures it in this file."""
    prefix = "tool.traincheck." if source.name == PYPROJECT else ""
    values: Mapping[str, object] = {
        "run": spec.run,
        "seed_arg": spec.seed_arg,
        "seed_by": spec.seed_by,
        "seeds": list(spec.seeds) if spec.seeds != DEFAULT_SEEDS else None,
        "steps": spec.steps,
        "link": list(spec.link) or None,
        "timeout": int(spec.timeout) if spec.timeout != DEFAULT_TIMEOUT else None,
    }
    key = tomlkit.key(spec.name).as_string()
    return "\n".join([f"[{prefix}pipelines.{key}]", *_lines(values.items())]) + "\n"


def _lines(values: Iterable[tuple[str, object]]) -> list[str]:
    return [f"{key} = {tomlkit.item(value).as_string()}" for key, value in values if value is not None]


def with_pipeline(place: Place, spec: PipelineSpec, python: str | None) -> tuple[str, Config]:
    """The text of the configuration with a pipeline more, and what it says.

    Raises `ConfigError` where the file cannot be given a table of its own.
    """
    text = place.source.read_bytes().decode("utf-8") if place.source.exists() else _HEAD
    table = table_of(spec, place.source)
    if python is not None:
        prefix = "[tool.traincheck]\n" if place.source.name == PYPROJECT else ""
        table = f"{prefix}python = {tomlkit.item(python).as_string()}\n\n{table}"
    # An empty line before it, and the line ends of the file.
    joint = "\n" if text.endswith("\n") or not text else "\n\n"
    new = text + (joint + table).replace("\n", "\r\n" if "\r\n" in text else "\n")
    try:
        found = load_text(place.source, new)
    except ConfigError:
        found = None
    former = place.config
    if found is None or (
        former is not None and found != replace(former, pipelines={**former.pipelines, spec.name: spec})
    ):
        raise ConfigError(
            f"{place.source}: a pipeline cannot be added to it by this command. Write it by hand:\n\n{table}"
        )
    return new, found
