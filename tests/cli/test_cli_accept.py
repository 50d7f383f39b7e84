"""What a failed check says to do, and `traincheck accept`, which does it."""

from __future__ import annotations

import datetime
import json
import shlex
import subprocess

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.config import load
from pytest_traincheck.launch.cache import VARIABLE

pytestmark = pytest.mark.usefixtures("project")

STEP = "torch.optim.SGD.step"
ZERO = "torch.optim.Optimizer.zero_grad"

TODAY = datetime.datetime.now(datetime.timezone.utc).date()
LATER = str(TODAY + datetime.timedelta(days=40))
TERMS = ["--owner", "vision", "--reason", "a new schedule", "--expires", LATER]


@pytest.fixture(autouse=True)
def _own_cache(fake, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path_factory.mktemp("cache")))
    fake.broken = (STEP,)


def last_lines(capsys, start: str) -> list[str]:
    out = capsys.readouterr().out
    return out[out.index(start) :].splitlines()


def rule(fake, subject: str = STEP) -> str:
    return next(item.id for item in fake.rules if item.subject == subject)


def test_the_printed_commands_do_what_they_say(project, fake, capsys, monkeypatch):
    """At 80 columns, pasted into a shell: the reason alone is left to a person."""
    monkeypatch.setenv("COLUMNS", "80")
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run(["git", "config", "user.name", "Ada O'Neil"], check=True)
    assert main(["check", "--golden", "golden"]) == 1
    printed = last_lines(capsys, "reproduce: ")
    assert all(len(line) <= 80 for line in printed)
    text = "\n".join(printed)
    pasted = subprocess.run(
        ["/bin/sh"], input=f"traincheck() {{ printf '%s\\n' \"$@\"; }}\n{text.partition('if intended:')[2]}",
        capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert printed[0] == "reproduce: traincheck check net --golden golden"
    assert pasted[:4] == ["accept", rule(fake), "--pipeline", "net"]
    assert pasted[4:8] == ["--owner", "Ada O'Neil", "--reason", "..."]
    assert main(pasted) == 2
    assert "--reason is '...', which tells a later reader nothing" in capsys.readouterr().err
    pasted[pasted.index("...")] = "a new schedule"
    assert main(pasted) == 0
    assert main(shlex.split(printed[0].partition(" traincheck ")[2])) == 0
    (entry,) = load(project).accept
    assert (entry.invariant, entry.owner, entry.reason) == (rule(fake), "Ada O'Neil", "a new schedule")
    assert entry.expires == TODAY + datetime.timedelta(days=30)


def test_every_broken_rule_of_an_incident_gets_an_exception_and_no_other(project, fake, capsys):
    fake.broken = (STEP, ZERO)
    main(["check"])
    assert main(["accept", rule(fake), *TERMS]) == 0
    assert [entry.invariant for entry in load(project).accept] == [rule(fake)]
    assert main(["check"]) == 1
    assert main(["accept", rule(fake, ZERO), *TERMS]) == 0
    assert "1 exception added" in " ".join(capsys.readouterr().out.split())
    assert main(["check"]) == 0


def test_rules_and_subjects_can_be_named(project):
    main(["check"])
    assert main(["accept", STEP, *TERMS]) == 0
    assert [entry.invariant for entry in load(project).accept] == [STEP]
    assert main(["check"]) == 0


CONFIGS = {
    "pyproject": ("pyproject.toml", "# kept\n[tool.other]\nx = 1  # kept too\n\n{}\n[tool.last]\ny = [\n  1,\n]\n"),
    "no end of line": ("pyproject.toml", "{}[tool.last]\ny = 2"),
    "windows": ("pyproject.toml", "[tool.other]\r\nx = 1\r\n{}"),
    "standalone": ("traincheck.toml", "golden = 'stored'\n{}"),
    "with exceptions": (
        "traincheck.toml",
        "{}\n[[accept]]\ninvariant = 'torch.nn.Linear'\nowner = 'a'\nreason = 'b'\nexpires = 2099-01-01\n[policy]\n",
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_the_rest_of_the_file_stays_as_it_is(project, fake, name):
    (project / "pyproject.toml").unlink()
    file, text = CONFIGS[name]
    prefix = "tool.traincheck." if file == "pyproject.toml" else ""
    end = "\r\n" if name == "windows" else "\n"
    path = project / file
    pipeline = f"[{prefix}pipelines.net]{end}run = 'python train.py'{end}seed_arg = '--seed {{seed}}'{end}"
    path.write_bytes(text.format(pipeline).encode())
    path.chmod(0o640)
    before, others = path.read_bytes(), load(project).accept
    assert main(["check"]) == 1
    assert main(["accept", rule(fake), *TERMS]) == 0
    after = path.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\r\n") == (after.count(b"\n") if name == "windows" else 0)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [entry.invariant for entry in load(project).accept] == [*(old.invariant for old in others), rule(fake)]
    assert main(["check"]) == 0
    assert main(["accept", rule(fake), *TERMS]) == 2  # nothing is found any more
    assert path.read_bytes() == after


def test_an_exception_that_is_over_gets_new_terms(project, fake, capsys):
    text = (project / "pyproject.toml").read_text()
    old = f"invariant = '{rule(fake)}'\nowner = 'a'\nreason = 'b'\nexpires = 2020-01-01\n"
    (project / "pyproject.toml").write_text(f"{text}\n[[tool.traincheck.accept]] # ours\n{old}")
    main(["check"])
    assert main(["accept", rule(fake), *TERMS]) == 0
    assert "1 exception renewed, until" in capsys.readouterr().out
    (entry,) = load(project).accept
    assert (entry.owner, str(entry.expires)) == ("vision", LATER)
    assert "# ours" in (project / "pyproject.toml").read_text()


def test_an_exception_is_for_the_value_that_was_shown(project, fake, capsys):
    fake.value = "0.002"
    main(["check"])
    assert main(["accept", rule(fake), *TERMS]) == 0
    (entry,) = load(project).accept
    assert (entry.invariant, entry.value) == (rule(fake), "0.002")
    assert main(["check"]) == 0
    fake.value = "0.0001"
    capsys.readouterr()
    assert main(["check"]) == 1
    note = f"note: vision accepted 0.002 for {rule(fake)} ({STEP}) until {LATER}; it is 0.0001 now"
    assert note in " ".join(capsys.readouterr().out.split())
    assert main(["accept", rule(fake), *TERMS]) == 0
    assert [entry.value for entry in load(project).accept] == ["0.002", "0.0001"]
    for value in ("0.002", "0.0001"):
        fake.value = value
        assert main(["check"]) == 0


def test_only_the_exception_for_the_value_gets_new_terms(project, fake):
    fake.value = "0.002"
    main(["check"])
    assert main(["accept", rule(fake), *TERMS[:-1], str(TODAY)]) == 0
    fake.value = "0.0001"
    main(["check"])
    assert main(["accept", rule(fake), *TERMS[:-1], str(TODAY)]) == 0
    assert main(["accept", rule(fake), *TERMS]) == 0
    assert [(entry.value, str(entry.expires)) for entry in load(project).accept] == [
        ("0.002", str(TODAY)),
        ("0.0001", LATER),
    ]


def test_an_exception_for_any_value_is_for_this_one(project, fake):
    text = (project / "pyproject.toml").read_text()
    old = f"invariant = '{rule(fake)}'\nowner = 'a'\nreason = 'b'\nexpires = {TODAY}\n"
    (project / "pyproject.toml").write_text(text)
    fake.value = "0.002"
    main(["check"])
    (project / "pyproject.toml").write_text(f"{text}\n[[tool.traincheck.accept]]\n{old}")
    assert main(["accept", rule(fake), *TERMS]) == 0
    assert [(entry.value, str(entry.expires)) for entry in load(project).accept] == [("", LATER)]
    fake.value = "0.0001"
    assert main(["check"]) == 0


@pytest.mark.parametrize("name", ['quo"te', "back\\slash", "größe", "new\nline", "\x1b[31mred", "#x", "'''"])
def test_texts_are_only_texts(project, fake, name):
    main(["check"])
    assert main(["accept", rule(fake), "--owner", name, "--reason", name, "--expires", LATER]) == 0
    (entry,) = load(project).accept
    assert entry.owner == entry.reason == " ".join(name.replace("\x1b[31m", "").split())


def test_another_machines_check_by_its_json(project, fake, capsys, monkeypatch, tmp_path_factory):
    fake.broken = (STEP, ZERO)
    main(["check", "--json", "ci.json"])
    monkeypatch.setenv(VARIABLE, str(tmp_path_factory.mktemp("elsewhere")))
    assert main(["accept", rule(fake), *TERMS]) == 2
    assert "no check of 'net' is remembered on this machine" in capsys.readouterr().err
    assert main(["accept", rule(fake), *TERMS, "--json-file", "ci.json"]) == 0
    content = json.loads((project / "ci.json").read_text())
    (project / "several.json").write_text(json.dumps({"pipelines": [{"pipeline": "other"}, content]}))
    assert main(["accept", rule(fake, ZERO), *TERMS, "--json-file", "several.json"]) == 0
    assert main(["check"]) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["0123456789ab", *TERMS], "has no incident, broken rule or subject '0123456789ab'. It found:"),
        ([STEP, "--pipeline", "nett", *TERMS], "Did you mean 'net'?"),
        ([STEP, "--owner", " ", "--reason", "r", "--expires", LATER], "--owner is ' '"),
        ([STEP, "--owner", "o", "--reason", "r", "--expires", "2020-01-01"], "--expires 2020-01-01 is over"),
        ([STEP, *TERMS, "--json-file", "none.json"], "none.json is no JSON object"),
        ([STEP, *TERMS, "--json-file", "other.json"], "that is no result of a check of 'net'"),
    ],
)
def test_what_cannot_be_accepted_changes_nothing(project, capsys, arguments, message):
    (project / "other.json").write_text('{"pipeline": "gan", "incidents": []}')
    before = (project / "pyproject.toml").read_bytes()
    main(["check"])
    capsys.readouterr()
    assert main(["accept", *arguments]) == 2
    assert message in capsys.readouterr().err
    assert (project / "pyproject.toml").read_bytes() == before


def test_a_form_that_cannot_be_extended_is_left_alone(project, fake, capsys):
    path = project / "pyproject.toml"
    entry = "{ invariant = 'x', owner = 'a', reason = 'b', expires = 2099-01-01 }"
    path.write_text(f"[tool.traincheck]\naccept = [{entry}]\n{path.read_text()}")
    before = path.read_bytes()
    main(["check"])
    capsys.readouterr()
    assert main(["accept", rule(fake), *TERMS]) == 2
    error = capsys.readouterr().err
    assert "Write them by hand" in error
    assert f'invariant = "{rule(fake)}"' in error
    assert path.read_bytes() == before


def test_a_check_that_passed_leaves_nothing_to_accept(fake, capsys):
    main(["check"])
    fake.broken = ()
    main(["check"])
    assert main(["accept", rule(fake), *TERMS]) == 2
    assert "found no incident, so there is nothing to accept" in capsys.readouterr().err


def test_another_configuration_file_is_named_by_the_commands(project, capsys, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("COLUMNS", "500")
    monkeypatch.chdir(tmp_path_factory.mktemp("away"))
    assert main(["check", "--config", str(project / "pyproject.toml")]) == 1
    reproduce, *_ = last_lines(capsys, "reproduce: ")
    assert reproduce == f"reproduce: traincheck check net --config {project / 'pyproject.toml'}"
