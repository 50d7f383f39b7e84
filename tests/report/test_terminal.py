"""What a person sees after a check, at any width, with and without colour."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from pytest_traincheck.check.result import ChangedLines, CheckResult
from pytest_traincheck.report.hunk_lines import cut
from pytest_traincheck.report.incident import render_incident_text
from pytest_traincheck.report.terminal import render_result


def printed(result: CheckResult, width: int, colour: bool) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=colour, color_system="standard" if colour else None)
    console.print(render_result(result, width))
    return stream.getvalue()


@pytest.mark.parametrize("name", ["failed", "passed", "errored", "hostile"])
@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(name: str, width: int, request: pytest.FixtureRequest) -> None:
    result: CheckResult = request.getfixturevalue(name)
    lines = render_result(result, width).plain.splitlines()
    assert lines
    assert max(map(cell_len, lines)) <= width
    for incident in result.incidents:
        assert max(map(cell_len, render_incident_text(incident, width).splitlines())) <= width


@pytest.mark.parametrize("name", ["failed", "passed", "errored", "hostile"])
def test_colour_changes_no_text(name: str, request: pytest.FixtureRequest) -> None:
    result: CheckResult = request.getfixturevalue(name)
    plain = printed(result, 80, colour=False)
    assert plain == render_result(result, 80).plain + "\n"
    assert "\x1b" not in plain
    coloured = printed(result, 80, colour=True)
    assert "\x1b[1;" in coloured
    assert len(coloured.splitlines()) == len(plain.splitlines())


def test_what_the_candidate_calls_otherwise_is_one_quiet_line(failed: CheckResult, passed: CheckResult) -> None:
    pairs = [f"`Distiller.student.{name}` is `Student.{name}` in the golden run" for name in "abcd"]
    text = render_result(failed, 400)
    assert f"\nrenamed:   {', '.join(pairs)}, and 2 more\n" in text.plain
    assert [span.style for span in text.spans if "renamed:" in text.plain[span.start : span.end]] == ["dim"]
    assert "renamed" not in render_result(passed, 80).plain


def test_a_failure_tells_the_cause_first(failed: CheckResult) -> None:
    lines = render_result(failed, 120).plain.splitlines()
    assert lines[0] == "tiny_gpt: FAILED - 2 incidents, 4 of 36 rules broken"
    assert lines[2] == "1. `torch.nn.utils.clip_grad_norm_` is no longer called before `torch.optim.AdamW.step`"
    assert lines[3].split(maxsplit=1) == [
        "golden:",
        "once in every step, before the optimizer steps (24 examples in 3 runs)",
    ]
    assert lines[4].split(maxsplit=1) == ["candidate:", "never in 8 steps"]
    text = "\n".join(lines)
    assert "step 1 (train), ranks 0-3, module transformer.blocks.0.attention, at train/loop.py:41" in text
    assert "transformer.blocks.2.attention.projection.weight +9 more" in text
    assert "transformer.blocks.3.attention.projection.weight" not in text
    assert "   13 consequences:\n" in text
    assert "   - and 10 more\n" in text
    assert "\n2. `AdamW(lr)` was 0.001, is 0.0003\n" in text
    assert "before the first step, at train/loop.py:41" in text
    assert "36 in the golden: 30 held, 4 violated, 1 not triggered, 1 not observable" in text
    assert lines[-1] == "timing:    golden run 4.2 s, candidate run 4.4 s, infer 0.31 s, check 0.05 s"


def test_the_changed_lines_are_shown_around_the_change_that_matters(failed: CheckResult) -> None:
    lines = render_incident_text(failed.incidents[0], 80).splitlines()
    (first,) = [number for number, line in enumerate(lines) if line.startswith("   diff:")]
    assert lines[first] == "   diff:      train/loop.py, @@ -38,16 +38,14 @@ (same function)"
    shown = lines[first + 1 : first + 12]
    assert shown[0].startswith("              loss = criterion(")
    assert shown[0].endswith("…")
    assert shown[2] == "     -        torch.nn.utils.clip_grad_norm_("
    assert shown[5] == "     +        # clipped by the optimizer now"
    assert lines[first + 12] == "   13 consequences:"
    assert "diff:" not in render_incident_text(failed.incidents[1], 80)


def test_a_long_hunk_says_what_it_leaves_out(failed: CheckResult) -> None:
    hunk = "@@ -1,3 +1,30 @@\n" + " a\n" * 3 + "\n".join(f"+line {number}" for number in range(27))
    incident = replace(failed.incidents[0], diff=ChangedLines("a.py", hunk, "same file", 10))
    lines = render_incident_text(incident, 80).splitlines()
    assert [line.strip() for line in lines if line.startswith("     +")] == [f"+line {n}" for n in range(4, 15)]
    assert "     (16 more changed lines)" in lines


def test_removed_lines_are_red_and_added_ones_green(failed: CheckResult) -> None:
    text = printed(failed, 80, colour=True)
    assert "\x1b[31m     -            model.parameters(), config.grad_clip\x1b[0m" in text
    assert "\x1b[32m     +        # clipped by the optimizer now\x1b[0m" in text


def test_equal_consequences_are_told_once(failed: CheckResult) -> None:
    incident = failed.incidents[0]
    again = replace(incident, consequences=(incident.consequences[0],) * 5)
    text = render_incident_text(again)
    assert text.count("larger") == 1
    assert "5 consequences:" in text
    assert "more\n" not in text.split("consequences:")[1]


def test_a_pass_is_short(passed: CheckResult) -> None:
    lines = render_result(passed, 80).plain.splitlines()
    assert lines[0] == "mnist: passed - 1 of 2 rules held"
    assert len(lines) <= 4


def test_an_error_shows_the_last_lines_of_the_output(errored: CheckResult) -> None:
    text = render_result(errored, 80).plain
    assert text.startswith("gan: ERROR - 1 error\n")
    assert "candidate: `python train.py --steps 8` ended with exit status 1" in text
    assert "  | ModuleNotFoundError: No module named 'tokenisers'\n" in text
    assert '  |   File "train.py", line 3, in <module>\n' in text
    assert sum(line.startswith("  |") for line in text.splitlines()) == 15


def test_markup_is_text_and_control_characters_are_gone(hostile: CheckResult) -> None:
    text = printed(hostile, 80, colour=False)
    assert "[bold red]x[/]" in text
    assert not {"\x1b", "\x00", "\u202e"} & set(text)


def test_a_progress_bar_shows_its_last_state(errored: CheckResult) -> None:
    error = replace(errored.errors[0], output="  1%\r 50%\r100%\r\nname    loss\nhead    0.1\n")
    lines = render_result(replace(errored, errors=(error,)), 80).plain.splitlines()
    assert "  | 100%" in lines
    assert "  | name    loss" in lines


OLD = "obs, after, act, gain = torch.randn(200, 4), torch.randn(200, 4), torch.randint(0, 2, (200,)), torch.randn(200)"


@pytest.mark.parametrize("width", [80, 120])
def test_cut_lines_of_a_diff_show_where_they_differ(failed: CheckResult, width: int) -> None:
    hunk = f"@@ -1,3 +1,3 @@\n     x = 1\n-        {OLD}\n+        {OLD} * 5\n     y = 2"
    incident = replace(failed.incidents[0], diff=ChangedLines("a.py", hunk, "same file", 1))
    lines = render_incident_text(incident, width).splitlines()
    removed, added = (next(line for line in lines if line.startswith(f"     {sign}")) for sign in "-+")
    assert max(map(len, lines)) <= width
    assert removed[6:] != added[6:]
    assert added.endswith("torch.randn(200) * 5")
    # Both are cut at the same column, so that they still stand below each other.
    assert added[6:].startswith(removed[6:])


def test_lines_that_differ_where_one_sees_it_are_cut_at_the_end_alone() -> None:
    old, new = f"-before = {OLD}", f"+after = {OLD}"
    assert cut([old, new], 60) == [f"{old[:59]}…", f"{new[:59]}…"]
    assert cut(["-a", "-b", "+c", " d"], 60) == ["-a", "-b", "+c", " d"]
