"""Exit statuses, messages and report files of the commands, on right and on wrong input."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from pytest_traincheck.cli import main
from pytest_traincheck.golden import store
from pytest_traincheck.workflow.compare import script_name

pytestmark = pytest.mark.usefixtures("project", "fake")

COMPARE = ("compare", "--golden", "golden", "--candidate", "candidate", "--run", "python train.py")


def test_compare_clean(project, capsys):
    assert main([*COMPARE, "--json", "out.json"]) == 0
    content = json.loads((project / "out.json").read_text())
    assert (content["format"], content["verdict"], content["pipeline"]) == (1, "pass", "train")
    assert content["invariants"] == {"golden": 3, "checked": 3, "passed": 3, "violated": 0, "not_evaluated": 0}
    assert content["timing"]["golden_run_s"] == content["timing"]["candidate_run_s"] == 0.5
    assert "train: passed" in capsys.readouterr().out


def test_compare_with_incidents(project, fake, capsys):
    fake.broken = ("torch.optim.SGD.step",)
    arguments = [*COMPARE, "--json", "out.json", "--junit", "out.xml", "--html", "deep/out.html"]
    assert main(arguments) == 1
    assert "1. torch.optim.SGD.step was never called" in capsys.readouterr().out
    assert json.loads((project / "out.json").read_text())["incidents"][0]["subject"] == "torch.optim.SGD.step"
    assert "torch.optim.SGD.step" in (project / "out.xml").read_text()
    assert "torch.optim.SGD.step" in (project / "deep" / "out.html").read_text()


@pytest.mark.parametrize(
    "template", ["--seed={seed}", "--system.seed={seed}", "-s{seed}", "--seed {seed}", "seed={seed}"]
)
@pytest.mark.parametrize("as_one_word", [False, True])
def test_a_seed_may_be_passed_in_any_form(fake, template, as_one_word):
    words = [f"--seed-arg={template}"] if as_one_word else ["--seed-arg", template]
    assert main([*COMPARE, *words]) == 0
    assert {request.seed_arg for request in fake.requests} == {template}


@pytest.mark.parametrize("side", ["golden", "candidate"])
def test_a_run_that_fails_is_status_3_and_names_its_side(project, fake, capsys, side):
    fake.failing = lambda request: request.side == side
    assert main([*COMPARE, "--json", "out.json"]) == 3
    printed = capsys.readouterr().out
    assert "last line" in printed
    content = json.loads((project / "out.json").read_text())
    assert content["verdict"] == "error"
    assert content["errors"][0]["side"] == side
    # The directory of the run is gone, so the remedy must not send anybody there.
    assert "--artifacts" in content["errors"][0]["remedy"]
    assert "/golden-seed" not in content["errors"][0]["remedy"]


def test_a_run_that_trains_nothing_is_status_3(fake, capsys):
    fake.untrained = True
    assert main([*COMPARE]) == 3
    assert "nothing was trained" in capsys.readouterr().out


def test_runs_follow_seeds_and_commands(project, fake):
    main([*COMPARE, "--seeds", "3,4", "--seed-arg", "--seed {seed}", "--candidate-seed", "9", "--timeout", "7"])
    assert [(item.side, item.seed) for item in fake.requests] == [("golden", 3), ("golden", 4), ("candidate", 9)]
    assert {item.timeout for item in fake.requests} == {7.0}
    assert [item.cwd.name for item in fake.requests] == ["golden", "golden", "candidate"]
    assert fake.requests[0].forbidden_roots == (project / "candidate",)
    assert fake.requests[2].forbidden_roots == (project / "golden",)


def test_candidate_runs_with_the_first_seed_by_default(fake):
    main([*COMPARE, "--seeds", "5,6"])
    assert fake.requests[-1].seed == 5


@pytest.mark.parametrize(("command", "same"), [("python train.py", True), ("python other.py", False)])
def test_another_command_for_the_candidate_makes_another_spec(fake, command, same):
    main([*COMPARE, "--candidate-run", command])
    assert fake.same_spec == [same]


def test_artifacts_are_kept(project):
    main([*COMPARE, "--seeds", "0", "--artifacts", "kept"])
    kept = project / "kept" / "train"
    assert sorted(path.name for path in kept.iterdir()) == ["candidate", "golden-seed0", "golden.jsonl", "result.json"]
    assert len(store.read(kept / "golden.jsonl").invariants) == 3


def test_without_artifacts_nothing_is_left(project, fake):
    before = {path.name for path in project.iterdir()}
    main([*COMPARE])
    assert not fake.requests[0].run_dir.exists()
    assert {path.name for path in project.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "--golden", "nowhere", "--candidate", "candidate", "--run", "x"), "`nowhere` is no directory"),
        (("compare", "--golden", "golden", "--candidate", "nowhere", "--run", "x"), "`nowhere` is no directory"),
        (("check", "nett"), "no pipeline 'nett'. Did you mean 'net'?"),
        (("check", "--golden", "nowhere"), "`nowhere` is no directory"),
        (("check", "--config", "nowhere.toml"), "nowhere.toml"),
        (("refresh", "nett"), "no pipeline 'nett'"),
        (("refresh", "--golden", "nowhere"), "`nowhere` is no directory"),
        (("diff", "nowhere.jsonl", "net"), "There is no golden at nowhere.jsonl"),
        (("show", "nowhere.jsonl"), "There is no golden at nowhere.jsonl"),
        (("trace", "nowhere"), "nowhere"),
        (("infer", "nowhere", "--output", "out.jsonl"), "nowhere"),
        (("collect", "--run", "x", "--cwd", "nowhere", "--output", "run"), "nowhere: there is no such directory"),
    ],
)
def test_bad_input_is_one_clear_error_and_status_2(fake, capsys, arguments, message):
    assert main(list(arguments)) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("traincheck: error: ")
    assert "Traceback" not in captured.err
    assert fake.requests == []


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("compare",),
        ("unknown",),
        (*COMPARE, "--seeds", "0,x"),
        (*COMPARE, "--seeds", "1,1"),
        (*COMPARE, "--seed-arg", "--seed"),
        (*COMPARE, "--timeout", "0"),
        (*COMPARE, "--json", "."),
        (*COMPARE, "--name", "../outside"),
        ("trace", ".", "--events", "0"),
    ],
)
def test_wrong_use_is_status_2(capsys, arguments):
    with pytest.raises(SystemExit) as leaving:
        main(list(arguments))
    assert leaving.value.code == 2
    assert "usage: traincheck" in capsys.readouterr().err


def test_bad_input_is_written_to_the_json_too(project):
    arguments = ("--golden", "nowhere", "--candidate", "candidate", "--run", "python train.py", "--json", "out.json")
    assert main(["compare", *arguments]) == 2
    content = json.loads((project / "out.json").read_text())
    assert content["verdict"] == "error"
    assert "nowhere" in content["errors"][0]["message"]


def test_json_that_cannot_be_written_is_status_2(project, capsys):
    (project / "file").touch()
    assert main([*COMPARE, "--json", "file/out.json"]) == 2
    assert "Cannot write the JSON report" in capsys.readouterr().err


def test_python_m_is_the_command():
    shown = subprocess.run(
        [sys.executable, "-m", "pytest_traincheck", "--help"], capture_output=True, text=True, check=True
    )
    for command in ("compare", "check", "refresh", "diff", "show", "collect", "infer", "trace"):
        assert command in shown.stdout


def test_a_mistake_of_ours_is_not_taken_for_incidents(fake, capsys):
    fake.rules = None
    assert main([*COMPARE]) == 3
    assert "internal error in `traincheck compare`" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check --golden", "upgrade --with torch==2.15.0 --golden"])
def test_an_empty_ref_is_not_the_configured_one(capsys, command):
    """As in `--golden "$BASE"` where nothing has set BASE."""
    with pytest.raises(SystemExit) as left:
        main([*command.split(), ""])
    assert left.value.code == 2
    assert "the ref is empty" in capsys.readouterr().err


def test_compare_ends_with_what_to_type(project, fake, capsys):
    fake.broken = ("torch.optim.SGD.step",)
    arguments = [*COMPARE[:-1], "python train.py --api-key secret123", "--json", "out.json"]
    assert main(arguments) == 1
    *_, reproduce, intended = capsys.readouterr().out.splitlines()
    assert reproduce.endswith("--json out.json")
    assert "secret123" not in reproduce
    assert intended == "if intended: nothing is stored here; give the candidate as --golden from now on"
    content = json.loads((project / "out.json").read_text())
    assert content["commands"]["reproduce"].startswith("traincheck compare --golden golden ")


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python train.py --steps 8", "train"),
        ("python -m pkg.train --steps 8", "train"),
        ("python -m pkg.models.__main__", "models"),
        ("python -m torch.distributed.run --nproc-per-node 2 train.py", "train"),
        ("accelerate launch -m pkg.finetune", "finetune"),
        ("torchrun --nproc-per-node 2 scripts/pre-train.py", "pre-train"),
        ("make train", "pipeline"),
        ("python -m", "pipeline"),
    ],
)
def test_the_name_in_reports(command, name):
    assert script_name(command) == name
