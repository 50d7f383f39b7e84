"""What a run's result depends on beside its code: the interpreter, what is installed, the machine, the environment."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pytest_traincheck.launch.command import resolve_interpreter

_TIMEOUT_S = 60.0

# Runs in the interpreter in question. RECORD holds a hash of every installed file, so another build of one version
# differs; its lines that lead out of the directory are scripts, which name their interpreter's own place.
_QUESTION = r"""
import hashlib, json, os, platform, sys
installed = []
for directory in dict.fromkeys(sys.path):
    if not os.path.isdir(directory):
        continue
    for name in sorted(os.listdir(directory)):
        if not name.endswith((".dist-info", ".egg-info")):
            continue
        found = hashlib.blake2b(digest_size=8)
        for part in ("RECORD", "PKG-INFO", "direct_url.json"):
            try:
                with open(os.path.join(directory, name, part), "rb") as stream:
                    found.update(b"".join(line for line in stream if not line.startswith(b"../")))
            except OSError:
                pass
        installed.append(name + " " + found.hexdigest())
print(json.dumps({
    "python": sys.version,
    "implementation": platform.python_implementation(),
    "platform": sys.platform + "-" + platform.machine(),
    "libc": " ".join(platform.libc_ver()),
    "installed": installed,
}))
"""

# What differs from one session to the next without saying anything about the training: the terminal, the desktop, the
# shell's own books, and the numbers that CI systems give to their jobs. Everything else may be read by a script.
_SESSION_NAMES = frozenset(
    {
        "_", "COLUMNS", "COLORTERM", "DISPLAY", "EDITOR", "HISTFILE", "HISTSIZE", "HOSTNAME", "INVOCATION_ID",
        "JOURNAL_STREAM", "LESS", "LESSCLOSE", "LESSOPEN", "LINES", "LOGNAME", "LS_COLORS", "MAIL", "MANPATH", "OLDPWD",
        "PAGER", "PROMPT_COMMAND", "PS1", "PS2", "PWD", "SHELL", "SHLVL", "STY", "TEMP", "TERM", "TMP", "TMPDIR",
        "USER", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "VISUAL", "WAYLAND_DISPLAY", "WINDOWID",
    }
)  # fmt: skip
_SESSION_PREFIXES = (
    "ACTIONS_", "BITBUCKET_", "BUILDKITE_", "CI_", "CIRCLE_", "COV_", "DBUS_", "GITHUB_", "GITLAB_", "GIT_", "GNOME_",
    "GPG_", "ITERM_", "KITTY_", "PIP_", "PRE_COMMIT", "PYTEST_", "RUNNER_", "SLURM_JOB", "SSH_", "SUDO_", "TERM_",
    "TMUX", "TOX_", "TRAINCHECK_", "TRAVIS_", "UV_", "VSCODE_", "WEZTERM_", "XDG_",
)  # fmt: skip
# Names too common to belong to a CI system anywhere else: the variable by which it is known, and how its own begin.
_SESSION_PREFIXES_WHERE = {
    "TF_BUILD": ("AGENT_", "BUILD_", "SYSTEM_"),
    "JENKINS_URL": (
        "BRANCH_NAME", "BUILD_", "CHANGE_", "EXECUTOR_NUMBER", "HUDSON_", "JENKINS_", "JOB_", "NODE_NAME", "RUN_",
        "STAGE_NAME", "WORKSPACE",
    ),
}  # fmt: skip


class FingerprintError(RuntimeError):
    """An interpreter does not say what it is; the text tells why."""


def fingerprint(python: str | None, env: Mapping[str, str]) -> dict[str, Any]:
    """Everything about an interpreter, this machine and the environment that a training run may depend on, as JSON.

    `python` is an interpreter as the configuration names it, `env` the variables that the pipeline sets. Raises
    `CommandError` for an interpreter that does not exist and `FingerprintError` for one that does not answer.
    """
    merged = {**os.environ, **env}
    interpreter = resolve_interpreter(python, merged.get("PATH"))
    noise = _session_prefixes(merged)
    seen = {
        name: value
        for name, value in sorted(merged.items())
        if name in env or not (name in _SESSION_NAMES or name.startswith(noise))
    }
    return {
        **_ask(str(interpreter), merged.get("PYTHONPATH", "")),
        "accelerators": accelerators(),
        "variables": seen,
    }


def _session_prefixes(variables: Mapping[str, str]) -> tuple[str, ...]:
    found = [prefix for mark, names in _SESSION_PREFIXES_WHERE.items() if mark in variables for prefix in names]
    return (*_SESSION_PREFIXES, *found)


@lru_cache(maxsize=32)
def _ask(interpreter: str, python_path: str) -> dict[str, Any]:
    """What an interpreter says about itself, asked once."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRAINCHECK_")}
    try:
        done = subprocess.run(
            [interpreter, "-c", _QUESTION],
            env={**environment, "PYTHONPATH": python_path},
            # Elsewhere than in the project: what lies in the working directory is on the path of `-c`.
            cwd=tempfile.gettempdir(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        answer = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise FingerprintError(f"{interpreter} does not say what is installed in it: {error}") from error
    if not isinstance(answer, dict):
        raise FingerprintError(f"{interpreter} does not say what is installed in it")
    return answer


def accelerators(root: Path = Path("/")) -> list[str]:
    """The GPUs and their driver, as far as the system names them without torch, which takes seconds to import."""
    models = _lines(sorted((root / "proc/driver/nvidia/gpus").glob("*/information")), ("Model:",))
    driver = _lines([root / "proc/driver/nvidia/version"], ("NVRM",))
    nodes = sorted(path.name for pattern in ("nvidia[0-9]*", "kfd", "accel*") for path in (root / "dev").glob(pattern))
    return [*models, *driver, *nodes]


def _lines(files: Iterable[Path], beginnings: tuple[str, ...]) -> list[str]:
    found = []
    for file in files:
        try:
            text = file.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        found += [" ".join(line.split()) for line in text.splitlines() if line.startswith(beginnings)]
    return found
