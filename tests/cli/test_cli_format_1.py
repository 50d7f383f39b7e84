"""A golden of format 1 in a store: a refresh writes it anew without a change, and what named its rules still holds."""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

import pytest
from fake_engine import PINNED, STEP, FakeEngine

from pytest_traincheck.cli import main
from pytest_traincheck.golden import store
from pytest_traincheck.golden.encode import encode
from pytest_traincheck.golden.format_1 import former, ids_of
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.relations.event_contain import InStep
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.workflow.bundle_check import BEYOND, check_part
from pytest_traincheck.workflow.policy import Rules

NET = "golden_invariants/net.jsonl"
UPDATES = Invariant(
    *("EventContain", "torch.optim.SGD.step", InStep("torch.optim.SGD.step", "updates"), ()),
    *(Scope.TRANSFERABLE, Kind.BEHAVIOUR, "`SGD.step` changes every parameter it holds that has a gradient.", 24, 3),
)
"""A rule that had English in its claim."""


@pytest.fixture
def path(project: Path, fake: FakeEngine) -> Path:
    """The golden of a pipeline, as it was written in format 1."""
    fake.rules = (STEP, PINNED, UPDATES)
    path = project / NET
    golden = replace(store.read(path), invariants=fake.rules)
    former_rules = tuple(former(rule) for rule in fake.rules)
    path.write_bytes(encode(replace(golden, invariants=former_rules)).replace(b'"format": 2', b'"format": 1', 1))
    assert ids_of(UPDATES)[-1] in path.read_text()
    assert UPDATES.id not in path.read_text()
    return path


def test_a_refresh_writes_it_in_format_2_and_tells_no_change(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refresh", "net"]) == 0
    printed = capsys.readouterr().out
    assert "net: learned 3 rules, wrote" in printed
    assert "`net`: no change" in printed
    for heading in ("Added", "Removed", "Changed", "Weaker", "Stronger"):
        assert heading not in printed
    written = path.read_text()
    assert written.startswith('{"format": 2, ')
    assert UPDATES.id in written
    before = path.read_bytes()
    assert main(["refresh", "net"]) == 0
    assert path.read_bytes() == before


def test_two_formats_do_not_differ(path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.jsonl"
    other.write_bytes(encode(store.read(path)))
    assert main(["diff", str(path), str(other)]) == 0
    assert capsys.readouterr().out.strip() == "`net`: no change"


@pytest.mark.parametrize("refreshed", [False, True], ids=["format 1", "format 2"])
def test_an_exception_that_names_a_former_id_holds(
    path: Path, project: Path, fake: FakeEngine, capsys: pytest.CaptureFixture[str], refreshed: bool
) -> None:
    if refreshed:
        assert main(["refresh", "net"]) == 0
    fake.broken = (UPDATES.subject,)
    assert main(["check", "net"]) == 1
    config = project / "pyproject.toml"
    for rule in (UPDATES, STEP):
        config.write_text(
            f"{config.read_text()}\n[[tool.traincheck.accept]]\ninvariant = '{ids_of(rule)[-1]}'\n"
            "owner = 'ml-infra'\nreason = 'known'\nexpires = 2999-01-01\n"
        )
    assert main(["check", "net"]) == 0
    assert "matches no rule" not in capsys.readouterr().out
    assert path.exists()


def test_a_bundle_of_before_names_rules_by_former_ids(fake: FakeEngine) -> None:
    """What speaks of more than the part of a run that a bundle keeps is listed in it by id."""
    found = check_part(
        Golden("net", "s", (STEP, UPDATES)),
        None,  # type: ignore[arg-type]
        same_spec=True,
        beyond={ids_of(UPDATES)[-1]},
        rules=Rules((), {}, datetime.date(2026, 7, 1)),
        engine=fake.engine(),
    )
    assert [item.invariant for item in found.judged.verdicts if item.reason == BEYOND] == [UPDATES]
