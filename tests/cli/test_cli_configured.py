"""`check` and `refresh` of configured pipelines."""

from __future__ import annotations

import datetime
import json
import subprocess

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.golden import store

pytestmark = pytest.mark.usefixtures("project", "fake")

NET = "golden_invariants/net.jsonl"
STEP = "torch.optim.SGD.step"


def test_check_passes_and_runs_once(fake, capsys):
    assert main(["check"]) == 0
    assert [(item.side, item.seed, item.seed_arg) for item in fake.requests] == [("candidate", 0, "--seed {seed}")]
    assert fake.same_spec == [True]
    assert "net: passed" in capsys.readouterr().out


def test_failed_check_ends_with_the_commands_that_reproduce_and_accept(fake, capsys):
    fake.broken = (STEP,)
    assert main(["check", "net"]) == 1
    accept = f'traincheck refresh net --accept {fake.rules[0].id} --reason "..."'
    assert capsys.readouterr().out.endswith(f"\n\nreproduce: traincheck check net\nif intended: {accept}\n")


def test_changed_command_leaves_the_transferable_rules_and_says_so(project, fake, capsys):
    config = project / "pyproject.toml"
    config.write_text(config.read_text().replace("train.py", "train.py --steps 9"))
    assert main(["check"]) == 0
    assert fake.same_spec == [False]
    assert "learned from another command" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "traincheck refresh net"),
        (lambda path: path.write_bytes(path.read_bytes()[:-30]), "cut short"),
        (lambda path: path.write_text('{"format": 99}\n'), "format"),
    ],
)
def test_golden_that_is_missing_or_damaged_is_bad_input(project, fake, capsys, damage, message):
    damage(project / NET)
    assert main(["check", "--json", "out.json"]) == 2
    assert message in capsys.readouterr().err
    assert json.loads((project / "out.json").read_text())["verdict"] == "error"
    assert fake.requests == []


def test_two_pipelines_with_one_name(project, capsys):
    config = project / "pyproject.toml"
    config.write_text(config.read_text() + config.read_text())
    assert main(["check"]) == 2
    assert "two pipelines are called `net`" in capsys.readouterr().err


def test_no_pipeline_is_bad_input(project, capsys):
    (project / "pyproject.toml").write_text("[tool.traincheck]\n")
    assert main(["check"]) == 2
    assert "configures no pipeline" in capsys.readouterr().err


def accept(project, rule, days):
    day = datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=days)
    with (project / "pyproject.toml").open("a") as config:
        config.write(
            f"[[tool.traincheck.accept]]\ninvariant = '{rule}'\nowner = 'vision'\nreason = 'known'\nexpires = {day}\n"
        )


def test_accepted_exception(project, fake):
    fake.broken = (STEP,)
    accept(project, STEP, 1)
    assert main(["check", "--json", "out.json"]) == 0
    content = json.loads((project / "out.json").read_text())
    assert content["invariants"]["violated"] == 0
    assert content["incidents"] == []


def test_accepted_exception_applies_to_what_it_names_alone(project, fake):
    fake.broken = (STEP, "torch.optim.Optimizer.zero_grad")
    accept(project, STEP, 1)
    assert main(["check", "--json", "out.json"]) == 1
    (incident,) = json.loads((project / "out.json").read_text())["incidents"]
    assert (incident["rank"], incident["subject"]) == (1, "torch.optim.Optimizer.zero_grad")


def test_expired_and_needless_exceptions_are_reported(project, fake, capsys):
    fake.broken = (STEP,)
    accept(project, STEP, -1)
    accept(project, "0123456789ab", 1)
    assert main(["check"]) == 1
    printed = " ".join(capsys.readouterr().out.split())  # however wide the terminal
    assert "expired" in printed
    assert "The accepted exception `0123456789ab` of vision matches no rule of any golden." in printed


@pytest.mark.parametrize("key", ["'torch.optim.*'", "Count", "behaviour"])
def test_policy_warn_is_no_failure_but_is_said(project, fake, capsys, key):
    fake.broken = (STEP,)
    with (project / "pyproject.toml").open("a") as config:
        config.write(f"[tool.traincheck.policy]\n{key} = 'warn'\n")
    assert main(["check"]) == 0
    assert "torch.optim.SGD.step was never called" in capsys.readouterr().out


def test_live_golden_runs_both_sides(fake):
    assert main(["check", "--golden", "golden"]) == 0
    assert [item.side for item in fake.requests] == ["golden"] * 3 + ["candidate"]


def test_refresh_without_a_change_leaves_the_file_alone(project, capsys):
    before = (project / NET).read_bytes()
    assert main(["refresh"]) == 0
    assert (project / NET).read_bytes() == before
    assert "no change" in capsys.readouterr().out


def test_refresh_shows_what_changed_and_keeps_the_reason(project, fake, capsys):
    fake.rules = fake.rules[:1]
    assert main(["refresh", "net", "--reason", "clipping is gone for good"]) == 0
    printed = capsys.readouterr().out
    assert "Removed" in printed
    assert "torch.optim.Optimizer.zero_grad is called once per step" in printed
    assert store.read(project / NET).reason == "clipping is gone for good"


def test_first_refresh_writes_the_golden(project, fake):
    (project / NET).unlink()
    assert main(["refresh"]) == 0
    assert store.read(project / NET).seeds == (0, 1, 2)
    assert [item.seed for item in fake.requests] == [0, 1, 2]


def test_refresh_mends_a_damaged_golden(project, capsys):
    (project / NET).write_text("<<<<<<< HEAD\n" + (project / NET).read_text()[:-20])
    assert main(["refresh"]) == 0
    assert "could not be read and is replaced" in capsys.readouterr().out
    store.read(project / NET)


def test_refresh_does_not_write_over_what_was_never_a_golden(project, fake, capsys):
    """As when `store` names the directory of somebody's data."""
    (project / NET).write_text('{"text": "a data set of ours"}\n')
    assert main(["refresh"]) == 2
    assert f"{project / NET} is no golden and would be overwritten" in capsys.readouterr().err
    assert (project / NET).read_text() == '{"text": "a data set of ours"}\n'
    assert fake.requests == []


def test_refresh_writes_nothing_when_a_run_fails(project, fake, capsys):
    before = (project / NET).read_bytes()
    fake.rules = ()
    fake.failing = lambda request: request.seed == 2
    assert main(["refresh"]) == 3
    assert (project / NET).read_bytes() == before
    assert "last line" in capsys.readouterr().out


def test_store_that_cannot_be_written_is_found_before_anything_runs(project, fake, capsys):
    config = project / "pyproject.toml"
    config.write_text("[tool.traincheck]\nstore = 'file'\n" + config.read_text())
    (project / "file").touch()
    assert main(["refresh"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert fake.requests == []


def test_a_variation_is_run_and_learned_from_apart_from_the_seeds(project, fake):
    config = project / "pyproject.toml"
    config.write_text(config.read_text() + "vary = ['--batch-size 16']\n")
    assert main(["refresh"]) == 0
    assert fake.requests[-1].extra_args == "--batch-size 16"
    # What a variation takes away is `learn`'s to say: see tests/infer.
    assert fake.varied == ("golden-vary0",)
    assert store.read(project / NET).runs == 3


def test_the_first_seed_is_run_twice_to_see_whether_it_repeats(project, fake):
    fake.repeats = True
    assert main(["refresh"]) == 0
    assert [request.seed for request in fake.requests] == [0, 1, 2, 0]
    assert fake.repeated == ("golden-repeated",)
    assert store.read(project / NET).runs == 3


@pytest.mark.usefixtures("project")
def test_a_check_in_which_few_rules_come_up_is_no_pass(fake, capsys):
    fake.idle = ("torch.nn.Linear",)
    assert main(["check"]) == 0
    fake.idle = ("torch.nn.Linear", "torch.optim.Optimizer.zero_grad")
    assert main(["check"]) == 3
    assert "only 1 of 3 rules of the golden came up" in " ".join(capsys.readouterr().out.split())


def test_diff_and_show_take_names_and_files(project, fake, capsys):
    fake.rules = fake.rules[:1]
    (project / "old.jsonl").write_bytes((project / NET).read_bytes())
    main(["refresh"])
    capsys.readouterr()
    assert main(["diff", "old.jsonl", "net"]) == 0
    assert "zero_grad" in capsys.readouterr().out
    assert main(["show", "net", "--subject", STEP]) == 0
    assert "torch.optim.SGD.step is called once per step" in capsys.readouterr().out


def test_the_report_says_where_in_the_repository_a_pipeline_ran(project):
    subprocess.run(["git", "init", "--quiet", "."], cwd=project, check=True)
    config = project / "pyproject.toml"
    (project / "training").mkdir()
    config.write_text(config.read_text() + "cwd = 'training'\n")
    assert main(["check", "--json", "out.json"]) == 0
    assert json.loads((project / "out.json").read_text())["candidate"]["directory"] == "training"
