"""`refresh` writes nothing that nobody read: incidents are accepted by name or all together, or all stays as it was."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from fake_engine import PINNED, STEP, ZERO, FakeEngine

from pytest_traincheck.cli import main
from pytest_traincheck.golden import locks, store

pytestmark = pytest.mark.usefixtures("project", "fake")

NET, GAN = "golden_invariants/net.jsonl", "golden_invariants/gan.jsonl"


@pytest.fixture
def changed(project: Path, fake: FakeEngine) -> FakeEngine:
    """Two pipelines with goldens; what is learned now lacks a rule, and two rules are broken in every run."""
    config = project / "pyproject.toml"
    config.write_text(config.read_text() + "[tool.traincheck.pipelines.gan]\nrun = 'python train.py'\nseeds = [4]\n")
    assert main(["refresh", "gan"]) == 0
    fake.requests.clear()
    fake.rules = (STEP, PINNED)
    fake.broken = (STEP.subject, ZERO.subject)
    return fake


def state(project: Path) -> tuple[bytes, bytes]:
    return (project / NET).read_bytes(), (project / GAN).read_bytes()


def test_incidents_are_shown_with_the_commands_that_accept_them(project, changed, capsys):
    before = state(project)
    assert main(["refresh", "net", "--reason", "no clearing"]) == 1
    assert state(project) == before
    printed = capsys.readouterr().out
    assert "net: learned 2 rules, wrote nothing" in printed
    assert "1. torch.optim.Optimizer.zero_grad was never called" in printed
    assert "2. torch.optim.SGD.step was never called" in printed
    assert f"traincheck refresh net --accept {STEP.id} --reason 'no clearing'" in printed
    assert f"traincheck refresh net --accept {ZERO.id} --reason 'no clearing'" in printed
    assert printed.rstrip().endswith(
        "All 2 are intended:\n  traincheck refresh net --accept-all --reason 'no clearing'"
    )
    # The runs that are learned from are those that are checked.
    assert [request.seed for request in changed.requests] == [0, 1, 2]


@pytest.mark.parametrize(
    "words",
    [
        ["--accept-all"],
        ["--accept", STEP.id, "--accept", ZERO.id],
        ["--accept", "torch.optim.*"],
        ["--accept", STEP.subject, "--accept", "torch.optim.Opt*"],
    ],
)
def test_what_is_accepted_is_written(project, changed, capsys, words):
    assert changed.broken
    assert main(["refresh", "net", *words, "--reason", "no clearing"]) == 0
    assert len(store.read(project / NET).invariants) == 2
    block = capsys.readouterr().out
    assert "> no clearing" in block
    assert "**Accepted**: 2 incidents against the previous golden." in block
    assert f"- `{STEP.id}` torch.optim.SGD.step was never called" in block


def test_one_acceptance_is_not_for_the_other_incident(project, changed, capsys):
    assert changed.broken
    before = state(project)
    assert main(["refresh", "net", "--accept", STEP.id]) == 1
    assert state(project) == before
    assert f"traincheck refresh net --accept {STEP.id} --accept {ZERO.id} --reason" in capsys.readouterr().out


def test_an_acceptance_that_names_nothing_lists_what_there_is(project, changed, capsys):
    assert changed.broken
    before = state(project)
    assert main(["refresh", "net", "--accept", STEP.id, "--accept", "torch.optim.Adam*"]) == 2
    assert state(project) == before
    said = capsys.readouterr().err
    assert "'torch.optim.Adam*' is to be accepted and names no incident, so nothing was written" in said
    assert f"{ZERO.id}  net: {ZERO.subject} was never called" in said


def test_the_reason_is_a_person_s_to_give(fake):
    with pytest.raises(SystemExit) as left:
        main(["refresh", "--reason", "..."])
    assert left.value.code == 2
    assert fake.requests == []


def test_nothing_is_left_to_accept(fake, capsys):
    assert fake.broken == ()
    assert main(["refresh", "--accept", STEP.id]) == 2
    assert "There is none" in capsys.readouterr().err


def test_several_pipelines_are_all_or_nothing(project, changed, capsys):
    before = state(project)
    changed.failing = lambda request: request.seed == 4
    assert main(["refresh", "--accept-all"]) == 3
    assert state(project) == before
    printed = capsys.readouterr().out
    assert "net: learned 2 rules, wrote nothing" in printed
    assert "gan: not refreshed" in printed
    changed.failing = lambda _request: False
    assert main(["refresh", "--accept-all"]) == 0
    assert [len(store.read(project / path).invariants) for path in (NET, GAN)] == [2, 2]


def test_an_exception_on_file_needs_no_acceptance(project, fake):
    fake.broken = (STEP.subject,)
    day = datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=1)
    with (project / "pyproject.toml").open("a") as config:
        config.write(
            f"[[tool.traincheck.accept]]\ninvariant = '{STEP.id}'\nowner = 'o'\nreason = 'r'\nexpires = {day}\n"
        )
    assert main(["refresh"]) == 0


def test_another_refresh_is_named(project, fake, capsys, monkeypatch):
    monkeypatch.setattr(locks, "REFRESH_TIMEOUT_S", 0.05)
    with locks.refreshing(project / "golden_invariants", "traincheck refresh net", lambda _holder: None):
        assert main(["refresh"]) == 2
    said = capsys.readouterr().err
    assert "traincheck: waiting for process" in said
    assert "(traincheck refresh net, since" in said.splitlines()[-1]
    assert fake.requests == []


def test_unused_goldens_are_named_with_the_command_that_deletes_them(project, capsys):
    (project / "golden_invariants" / "old.jsonl").write_bytes((project / NET).read_bytes())
    (project / "golden_invariants" / "old.linux-x86_64-cpu.npz").touch()
    golden = (project / NET).read_text().replace('"spec": "', '"spec": "in-process:', 1)
    (project / "golden_invariants" / "of_a_test.jsonl").write_text(golden)
    assert main(["check", "--json", "out.json"]) == 0
    note = "golden_invariants/old.jsonl is a golden that no pipeline uses"
    assert note in " ".join(capsys.readouterr().out.split())
    assert any(note in said for said in json.loads((project / "out.json").read_text())["notes"])
    assert main(["check", "net"]) == 0
    assert "no pipeline uses" not in capsys.readouterr().out
    assert main(["refresh"]) == 0
    command = "git rm golden_invariants/old.jsonl golden_invariants/old.linux-x86_64-cpu.npz"
    assert capsys.readouterr().out.rstrip().endswith(command)
    assert main(["refresh", "net"]) == 0
    assert "git rm" not in capsys.readouterr().out


def exception(project, rule, days):
    day = datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=days)
    with (project / "pyproject.toml").open("a") as config:
        config.write(
            f"[[tool.traincheck.accept]]\ninvariant = '{rule}'\nowner = 'vision'\nreason = 'known'\nexpires = {day}\n"
        )


@pytest.mark.parametrize(
    ("rule", "days", "names", "said"),
    [
        (STEP.subject, -1, [], "of vision expired on"),
        (STEP.subject, -1, ["net"], "of vision expired on"),
        ("0123456789ab", 1, [], "of vision matches no rule of any golden."),
    ],
)
def test_an_exception_that_is_over_fails_the_check(project, capsys, rule, days, names, said):
    exception(project, rule, days)
    assert main(["check", *names, "--json", "out.json", "--junit", "out.xml"]) == 1
    assert said in " ".join(capsys.readouterr().out.split())
    result = json.loads((project / "out.json").read_text())
    assert result["verdict"] == "fail"
    (incident,) = result["incidents"]
    assert (incident["kind"], incident["relation"], incident["subject"]) == ("config", "Accept", rule)
    assert said in incident["title"]
    assert said in (project / "out.xml").read_text()


def test_whether_an_exception_matches_is_judged_where_all_was_checked(project):
    exception(project, "0123456789ab", 1)
    assert main(["check", "net"]) == 0


def test_an_exception_for_a_rule_that_holds_is_a_note(project, capsys):
    exception(project, STEP.subject, 1)
    assert main(["check"]) == 0
    assert "was not needed: what it excuses held" in capsys.readouterr().out
