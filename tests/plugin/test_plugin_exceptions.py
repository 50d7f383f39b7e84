"""Exceptions on file are tests of their own, and a complete session names goldens that nothing uses."""

from __future__ import annotations

import datetime
import json

import pytest

from pytest_traincheck.golden import store

pytest_plugins = ["pytester"]

STEP = "torch.optim.SGD.step"
UNUSED = "note: golden_invariants/old.jsonl is a golden that no pipeline uses*"


def exception(project, rule, days):
    day = datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=days)
    with (project.root / "pyproject.toml").open("a") as config:
        config.write(
            f"[[tool.traincheck.accept]]\ninvariant = '{rule}'\nowner = 'vision'\nreason = 'known'\nexpires = {day}\n"
        )


@pytest.mark.parametrize(("rule", "days", "failed"), [(STEP, 1, 0), (STEP, -1, 1), ("0123456789ab", 1, 1)])
def test_an_exception_is_an_item(project, rule, days, failed):
    exception(project, rule, days)
    result = project.run("--traincheck", "--traincheck-json=out.json")
    result.assert_outcomes(passed=10 - failed, failed=failed)
    document = json.loads((project.root / "out.json").read_text())
    assert document["verdict"] == ("fail" if failed else "pass")
    assert [incident["relation"] for incident in document["incidents"]] == ["Accept"] * failed
    if failed:
        said = "expired on" if days < 0 else "matches no rule of any golden"
        result.stdout.fnmatch_lines([f"FAILED pyproject.toml::accept?{rule}? - The accepted exception*{said}*"])
    assert project.run("--traincheck", "-k", "net").ret == 0


def test_whether_it_matches_is_not_judged_for_one_pipeline(project):
    exception(project, "0123456789ab", 1)
    project.run("--traincheck", "--traincheck-pipeline", "net", "tests").assert_outcomes(passed=6)
    assert project.run("--traincheck", "golden_invariants/net.jsonl").ret == 0


def test_goldens_that_nothing_uses_are_noted_by_a_complete_session(project):
    store.write(
        project.root / "golden_invariants" / "old.jsonl", store.read(project.root / "golden_invariants/net.jsonl")
    )
    project.run("--traincheck").stdout.fnmatch_lines([UNUSED])
    for partial in (["-k", "net"], ["--lf"], ["--traincheck-pipeline", "net"]):
        project.run("--traincheck", *partial).stdout.no_fnmatch_line(UNUSED)
