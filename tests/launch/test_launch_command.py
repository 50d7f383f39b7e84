"""From the line a user types to what is executed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pytest_traincheck.launch.command import (
    CommandError,
    ensure_python_on_path,
    parse_command,
    resolve_interpreter,
    resolve_program,
    shell_characters,
)


def test_a_plain_line_needs_no_shell() -> None:
    command = parse_command("torchrun --nproc-per-node 2 train.py --name 'a|b; $c'", "--seed 1")
    assert not command.shell
    assert command.argv == ("torchrun", "--nproc-per-node", "2", "train.py", "--name", "a|b; $c", "--seed", "1")


def test_assignments_in_front_become_variables() -> None:
    command = parse_command("A=1 B='x y' python train.py C=3")
    assert command.assignments == {"A": "1", "B": "x y"}
    assert command.argv == ("python", "train.py", "C=3")


@pytest.mark.parametrize(
    "line",
    [
        "python a.py && python b.py",
        "python a.py; true",
        "python a.py > log",
        "python $SCRIPT",
        'python "$SCRIPT"',
        "python `ls`",
        "python *.py",
        "python ~/train.py",
        "A=1\npython a.py",
        "exec python a.py",
        "cd deep",
    ],
)
def test_a_line_for_a_shell_goes_to_one(line: str) -> None:
    command = parse_command(line, "--seed 1")
    assert command.shell
    assert command.argv == ("/bin/sh", "-c", f"{line} --seed 1")


@pytest.mark.parametrize("line", ["python a.py | tee log", "python a.py & wait", "python a.py 2>&1 | cat"])
def test_arguments_are_not_added_to_the_wrong_command(line: str) -> None:
    assert parse_command(line).argv == ("/bin/sh", "-c", line)
    with pytest.raises(CommandError, match="its last part only") as caught:
        parse_command(line, "--seed 1")
    assert "seed_env" in caught.value.remedy


@pytest.mark.parametrize("line", ["a && b --x '|'", "a || b", "a > log 2>&1"])
def test_arguments_may_follow_these(line: str) -> None:
    assert parse_command(line, "--seed 1").argv[-1] == f"{line} --seed 1"


words = st.lists(st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=12), min_size=1, max_size=6)


@settings(deadline=None)
@given(words, words)
def test_quoted_words_come_through_unchanged(command: list[str], arguments: list[str]) -> None:
    """Whatever a word holds: quoted, it is one argument, and never a shell's business."""
    line = "program " + shlex.join(command)
    assert shell_characters(line) == frozenset()
    parsed = parse_command(line, shlex.join(arguments))
    assert parsed.argv == ("program", *command, *arguments)
    assert not parsed.shell


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_line_is_either_parsed_or_refused(line: str) -> None:
    try:
        command = parse_command(line, "--seed 1")
    except CommandError:
        return
    assert command.argv
    assert not any("\0" in word for word in command.argv)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["a", "'", '"', "\\", "|", " ", "$", "b"]), max_size=12).map("".join))
@example('"\\$"')
def test_without_shell_characters_a_shell_agrees_with_our_splitting(line: str) -> None:
    try:
        command = parse_command(f"printf '%s\\n' x{line}")
    except CommandError:
        return
    if command.shell:
        return
    by_shell = subprocess.run(["/bin/sh", "-c", f"printf '%s\\n' x{line}"], capture_output=True, text=True, check=True)
    assert by_shell.stdout == "".join(f"{word}\n" for word in command.argv[2:])


def test_python_means_the_interpreter_of_the_side(tmp_path: Path) -> None:
    interpreter = Path("/opt/env/bin/python3.12")
    for name in ("python", "python3"):
        assert resolve_program(name, interpreter, tmp_path, "/usr/bin") == str(interpreter)
    assert resolve_interpreter(None) == resolve_interpreter("python") == Path(sys.executable)
    with pytest.raises(CommandError, match="no-such-python"):
        resolve_interpreter("no-such-python")


def test_a_tool_in_an_environment_without_torch_means_the_python_of_the_prompt(tmp_path: Path) -> None:
    theirs = tmp_path / "bin" / "python"
    theirs.parent.mkdir()
    theirs.write_text("#!/bin/sh\n", encoding="utf-8")
    theirs.chmod(0o755)
    root = Path(__file__).resolve().parents[2]
    code = f"import sys; sys.path.insert(0, {str(root)!r}); "
    code += "from pytest_traincheck.launch.command import resolve_interpreter; print(resolve_interpreter('python'))"
    # Without `site`, this interpreter has nothing but the standard library.
    command = [sys.executable, "-I", "-S", "-c", code]
    environment = {**os.environ, "PATH": str(theirs.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(theirs)
    # Where there is none it is that of the tool, and the run says what is missing.
    done = subprocess.run(
        command, env={**environment, "PATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == sys.executable


def test_every_python_below_is_that_interpreter(tmp_path: Path) -> None:
    link = tmp_path / "only" / "python-of-this-side"
    link.parent.mkdir()
    link.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    link.chmod(0o755)
    first = ensure_python_on_path(link, tmp_path / "bin dir")
    assert first == (tmp_path / "bin dir", link.parent)
    said = subprocess.run([first[0] / "python3", "-c", "print('a b')"], capture_output=True, text=True, check=True)
    assert said.stdout == "a b\n"
