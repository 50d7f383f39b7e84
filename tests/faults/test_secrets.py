"""Passwords and tokens in a command are in nothing that is stored or shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_traincheck.check.result import RunError, SideInfo
from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.redaction import redacted, redacted_environment, redacted_words

COMMAND = "import sys; from pytest_traincheck.cli import main; sys.exit(main())"

SECRET = "S3cr3tS3cr3tS3cr3t"


@pytest.mark.fault(
    area="Secrets", tried="`{line}`", happens="`***` in reports, bundles, run.json, messages and progress"
)
@pytest.mark.parametrize(
    "line",
    [
        f"train.py --hf-token {SECRET} --steps 8",
        f"train.py --hf-token={SECRET}",
        f"train.py --password '{SECRET} x'",
        f"train.py -password {SECRET}",
        f"train.py --wandb.api_key {SECRET}",
        f"WANDB_API_KEY={SECRET} python train.py",
        f"AWS_SECRET_ACCESS_KEY={SECRET} python train.py",
        f"python train.py db_password={SECRET}",
        f'python train.py "secret: {SECRET}"',
        f"train.py --data s3://user:{SECRET}@host/bucket",
        f"curl -H 'Authorization: Bearer {SECRET}' x",
        f"train.py --key hf_{SECRET}",
        f"train.py ghp_{SECRET}",
        f"train.py sk-proj-{SECRET}",
        f"train.py glpat-{SECRET}",
        "train.py AKIA0123456789ABCDEF",
    ],
)
def test_what_is_hidden(line: str) -> None:
    assert SECRET not in redacted(line)
    assert "AKIA0" not in redacted(line)
    assert "***" in redacted(line)
    assert redacted(redacted(line)) == redacted(line)


@pytest.mark.fault(area="Secrets", tried="`{line}`", happens="shown as it is: it is no secret")
@pytest.mark.parametrize(
    "line",
    [
        "python train.py --steps 8 --max-new-tokens 32 --tokenizer gpt2 --max_token 8",
        "python train.py --pad-token '<pad>' --eos_token </s>",
        "python train.py --key-size 8 --tokens 128 --token-dropout 0.1",
        "torchrun --nproc-per-node 2 train.py --data https://host:8080/x",
        "python train.py --skip-secretary --author x",
        "token: 42, loss per token: 3.5",
    ],
)
def test_what_is_no_secret(line: str) -> None:
    assert redacted(line) == line


def test_words_and_environments() -> None:
    assert redacted_words(["train.py", "--token", SECRET, "--steps", "8"]) == [
        "train.py",
        "--token",
        "***",
        "--steps",
        "8",
    ]
    assert redacted_words(["--token", "--steps", "8"]) == ["--token", "--steps", "8"]
    assert redacted_environment({"HF_TOKEN": SECRET, "A": "1"}) == {"HF_TOKEN": "***", "A": "1"}


def test_results_hold_no_secret() -> None:
    assert SECRET not in SideInfo(command=f"train.py --token {SECRET}").command
    error = RunError("", f"`train.py --token {SECRET}` failed", output=f"HF_TOKEN={SECRET}\nx")
    assert SECRET not in error.message + error.output


def test_a_token_that_is_renewed_is_no_other_command() -> None:
    old, new = (PipelineSpec("p", f"train.py --token {value}", env={"HF_TOKEN": value}) for value in ("a1", "b2"))
    assert old.fingerprint() == new.fingerprint() != PipelineSpec("p", "train.py").fingerprint()
    assert old.run == "train.py --token a1", "the run itself has it"


@pytest.mark.fault(
    area="Secrets",
    tried="a run that fails, with a token in its command and its output",
    happens="in none of the reports",
)
def test_a_run_that_fails(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import sys\nprint('HF_TOKEN={SECRET}', file=sys.stderr)\nsys.exit(3)\n")
    reports = [tmp_path / name for name in ("o.json", "o.xml", "o.html")]
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "compare", "--golden", ".", "--candidate", ".", "--artifacts", "kept",
         "--run", f"python train.py --hf-token {SECRET}",
         "--json", reports[0], "--junit", reports[1], "--html", reports[2]],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert SECRET not in done.stdout + done.stderr
    for report in reports:
        assert SECRET not in report.read_text()
    runs = list((tmp_path / "kept").rglob("run.json"))
    assert runs
    for path in runs:
        assert json.loads(path.read_text())["argv"][-2:] == ["--hf-token", "***"]
