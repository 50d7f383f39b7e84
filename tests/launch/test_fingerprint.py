"""What identifies an interpreter's environment: it changes with what a run may depend on, and with nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pytest_traincheck.launch import fingerprint as module
from pytest_traincheck.launch.command import CommandError
from pytest_traincheck.launch.fingerprint import FingerprintError, accelerators, fingerprint


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("fingerprint") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(target)], check=True)
    return target / "bin" / "python"


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    module._ask.cache_clear()
    yield
    module._ask.cache_clear()


def install(interpreter: Path, name: str, record: str) -> None:
    site = next((interpreter.parents[1] / "lib").glob("python*/site-packages"))
    directory = site / f"{name}.dist-info"
    directory.mkdir(exist_ok=True)
    (directory / "RECORD").write_text(record)
    module._ask.cache_clear()


def test_the_interpreter_and_what_is_installed_in_it(interpreter: Path) -> None:
    before = fingerprint(str(interpreter), {})
    assert before == fingerprint(str(interpreter), {})
    assert before["python"] == sys.version
    assert before["installed"] == []
    install(interpreter, "net-1.0", "net.py,sha256=a,3\n../../../bin/net,sha256=x,3\n")
    one = fingerprint(str(interpreter), {})
    install(interpreter, "net-1.0", "net.py,sha256=a,3\n../../../bin/net,sha256=y,3\n")
    assert fingerprint(str(interpreter), {}) == one != before
    # The same version, built again from other code.
    install(interpreter, "net-1.0", "net.py,sha256=b,3\n")
    assert fingerprint(str(interpreter), {}) != one


def test_what_lies_in_the_working_directory_is_not_installed(
    interpreter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint(str(interpreter), {})
    (tmp_path / "mine.egg-info").mkdir()
    (tmp_path / "platform.py").write_text("raise ValueError('a module of the project')\n")
    monkeypatch.chdir(tmp_path)
    module._ask.cache_clear()
    assert fingerprint(str(interpreter), {}) == before


def test_variables_that_a_script_may_read_count_and_those_of_the_session_do_not(
    interpreter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fingerprint(str(interpreter), {})
    for name in ("GITHUB_RUN_ID", "CI_JOB_ID", "SSH_TTY", "PYTEST_CURRENT_TEST", "SHLVL", "TRAINCHECK_SEED"):
        monkeypatch.setenv(name, "another")
    assert fingerprint(str(interpreter), {}) == before
    monkeypatch.setenv("BUILD_KIND", "small")
    assert fingerprint(str(interpreter), {}) != before
    monkeypatch.setenv("JENKINS_URL", "https://jenkins.invalid")
    assert fingerprint(str(interpreter), {}) == before
    for name in ("BATCH_SIZE", "OMP_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG", "PYTHONHASHSEED", "DATA_DIR"):
        monkeypatch.setenv(name, "16")
        assert fingerprint(str(interpreter), {}) != before, name
        monkeypatch.delenv(name)


def test_what_the_pipeline_sets_counts_whatever_its_name(interpreter: Path) -> None:
    assert fingerprint(str(interpreter), {"TERM": "a"}) != fingerprint(str(interpreter), {"TERM": "b"})


def test_an_interpreter_that_does_not_answer(tmp_path: Path) -> None:
    dumb = tmp_path / "python3.99"
    dumb.write_text("#!/bin/sh\necho nonsense\n")
    dumb.chmod(0o755)
    with pytest.raises(FingerprintError, match=r"python3\.99"):
        fingerprint(str(dumb), {})
    with pytest.raises(CommandError):
        fingerprint(str(tmp_path / "none"), {})


def test_accelerators(tmp_path: Path) -> None:
    assert accelerators(tmp_path) == []
    card = tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0"
    card.mkdir(parents=True)
    (card / "information").write_text("Model: \t\t NVIDIA H200\nIRQ:   \t\t 77\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia0").touch()
    (tmp_path / "dev" / "nvidiactl").touch()
    assert accelerators(tmp_path) == ["Model: NVIDIA H200", "nvidia0"]
