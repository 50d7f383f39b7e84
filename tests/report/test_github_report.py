"""What GitHub is told: escaped by its rules, within its limits, at the right line of the right file."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from pytest_traincheck.check.result import (
    ChangedLines,
    CheckResult,
    Commands,
    Incident,
    InvariantVerdict,
    RunError,
    Verdict,
    Violation,
)
from pytest_traincheck.report import github
from pytest_traincheck.report.errors import ReportError
from pytest_traincheck.report.github_command import Place
from pytest_traincheck.report.github_step import Mode, publish
from pytest_traincheck.report.hunk_lines import changed_line
from pytest_traincheck.report.markdown import fenced, inline
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.model import Invariant, Kind, Scope

RULE = Invariant("Count", "torch.optim.SGD.step", Foreign(), (), Scope.TRANSFERABLE, Kind.BEHAVIOUR, "Is called.", 8, 2)
ROOT = Violation(RULE, "`SGD.step` is missing", "once", "never", 3, "train", (0, 1), 5, source="train.py:41")
PLACE = Place(Path("/repository"), Path("/repository/training"))


def failed(root: Violation = ROOT, count: int = 1, name: str = "net") -> CheckResult:
    incidents = tuple(Incident(f"id{number}", number, root) for number in range(1, count + 1))
    return CheckResult(name, (InvariantVerdict(RULE, Verdict.VIOLATED),), incidents)


def decoded(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as GitHub's runner reads it (`ActionCommand.TryParseV2`)."""
    match = re.fullmatch(r"::(\w+) (.*?)::(.*)", line)
    assert match is not None, line
    pairs = [pair.split("=", 1) for pair in match[2].split(",") if "=" in pair]

    def plain(text: str, codes: dict[str, str]) -> str:
        for code, character in codes.items():
            text = text.replace(code, character)
        return text

    data = {"%0D": "\r", "%0A": "\n"}
    properties = {key: plain(value, {**data, "%3A": ":", "%2C": ",", "%25": "%"}) for key, value in pairs}
    return match[1], properties, plain(match[3], {**data, "%25": "%"})


def rendered(text: str) -> str:
    """HTML, as GitHub makes it of Markdown with tables (raw HTML is left in)."""
    return MarkdownIt("commonmark").enable("table").render(text)


def test_an_annotation_stands_at_the_line_of_the_source() -> None:
    (line,) = github.annotation_lines([failed()], {"net": PLACE})
    name, properties, message = decoded(line)
    assert name == "error"
    assert properties == {"file": "training/train.py", "line": "41", "title": "traincheck net: torch.optim.SGD.step"}
    assert message.splitlines()[:3] == ["`SGD.step` is missing", "golden: once", "candidate: never"]
    assert "where: step 3 (train), ranks 0, 1, at train.py:41" in message


@pytest.mark.parametrize("source", ["", "train.py", "/elsewhere/train.py:3", "../../train.py:3", "train.py:x"])
def test_a_file_outside_of_the_repository_is_not_named(source: str) -> None:
    (line,) = github.annotation_lines([failed(replace(ROOT, source=source))], {"net": PLACE})
    assert set(decoded(line)[1]) == {"title"}


def test_an_absolute_source_inside_of_the_repository_is_named_from_its_top() -> None:
    (line,) = github.annotation_lines([failed(replace(ROOT, source="/repository/models/cnn.py:7"))], {"net": PLACE})
    assert decoded(line)[1]["file"] == "models/cnn.py"


def test_what_would_end_a_command_is_escaped() -> None:
    evil = replace(
        ROOT, title="50 % of it\n::error::another", golden="a,b: 100%0A", source="a,b:c.py:2",
        invariant=replace(RULE, subject="Net[a,b]::weight\r\n::set-output name=x::y"),
    )  # fmt: skip
    (line,) = github.annotation_lines([failed(evil)], {"net": PLACE})
    assert "\n" not in line
    assert "\r" not in line
    _, properties, message = decoded(line)
    assert properties["file"] == "training/a,b:c.py"
    assert properties["title"] == "traincheck net: Net[a,b]::weight ::set-output name=x::y"
    assert message.splitlines()[0] == "50 % of it ::error::another"
    assert "golden: a,b: 100%0A" in message


def test_ten_annotations_and_how_many_more() -> None:
    lines = github.annotation_lines([failed(count=8), failed(count=6, name="gan")], {"net": PLACE})
    assert len(lines) == 11
    assert [decoded(line)[0] for line in lines] == ["error"] * 10 + ["notice"]
    assert decoded(lines[-1])[2].startswith("4 more incidents; ")
    assert len(github.annotation_lines([failed(count=10)], {})) == 10


def test_a_run_that_failed_is_an_annotation_without_a_file() -> None:
    error = RunError("candidate", "the run exited with 1", "Correct it.", "boom")
    (line,) = github.annotation_lines([CheckResult("net", errors=(error,))], {"net": PLACE})
    _, properties, message = decoded(line)
    assert properties == {"title": "traincheck net: the pipeline did not run"}
    assert message == "candidate: the run exited with 1\nCorrect it."


def test_the_summary_is_a_table_of_incidents() -> None:
    diff = ChangedLines("train.py", "@@ -1,2 +1 @@\n a\n-optimizer.step()", "same function")
    commands = Commands(("traincheck", "check", "net"), ("traincheck", "refresh", "net"))
    result = replace(failed(), incidents=(Incident("id", 1, ROOT, (), diff),), notes=("the run was repeated",))
    result = replace(result, commands=commands)
    page = rendered(github.summary([result]))
    assert "<h2>traincheck: 1 failed of 1 pipeline</h2>" in page
    assert "<td><code>SGD.step</code> is missing</td>" in page
    assert "<td>step 3 (train), ranks 0, 1, at train.py:41</td>" in page
    assert '<code class="language-diff">@@ -1,2 +1 @@\n a\n-optimizer.step()' in page
    assert "<li>the run was repeated</li>" in page
    assert "reproduce: traincheck check net\nif intended: traincheck refresh net" in page


def test_a_summary_of_what_passed_is_short() -> None:
    passed = CheckResult("net", (InvariantVerdict(RULE, Verdict.HELD),))
    text = github.summary([passed, replace(passed, pipeline="gan")])
    assert text.startswith("## traincheck: passed\n")
    assert len(text.splitlines()) == 6


@pytest.mark.parametrize(
    "text",
    [
        "a | b", "a `b | c` d", "one ` backtick", "``two``", "<script>alert(1)</script>", "`<b>` and <b>",
        "*bold* _x_ ~~y~~",
        "[link](http://example.invalid)", "![image](x)", "a\\|b", "`a\\|b`", "# head", "&amp; &lt;", "line\nbreak",
        "<!-- comment", "$x^2$", "`a` `b",
    ],
)  # fmt: skip
def test_text_is_shown_as_it_is(text: str) -> None:
    page = rendered(f"| x |\n| --- |\n| {inline(text)} |\n")
    (cell,) = re.findall(r"<td>(.*?)</td>", page)
    assert not re.search(r"<(?!/?code>)", cell), "text became markup"
    plain = re.sub(r"</?code>", "", cell).replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    assert plain.replace("&amp;", "&").replace("`", "") == text.replace("\n", " ").replace("`", "")


def test_a_block_of_code_holds_any_backticks() -> None:
    page = rendered(fenced(["```", "</code><b>", "````"], "diff"))
    assert page.count("<pre>") == 1
    assert "<b>" not in page


def test_a_summary_stays_within_its_limit_and_says_what_is_missing() -> None:
    long = replace(ROOT, golden="x" * 400)
    text = github.summary([failed(long, count=50)], room=10_000)
    assert len(text.encode()) <= 10_000
    assert re.search(r"_\d+ further lines or blocks do not fit here", text)
    assert "| 1 |" in text
    huge = github.summary([failed(replace(ROOT, title="é" * 5_000_000), count=3)])
    assert len(huge.encode()) < 10_000


def test_published_where_github_asks_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    page = tmp_path / "summary.md"
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY"):
        monkeypatch.delenv(name, raising=False)
    publish(Mode.AUTO, [failed()], {}, told.append)
    assert not told
    publish(Mode.ON, [failed()], {}, told.append)
    assert len(told) == 1
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    publish(Mode.OFF, [failed()], {}, told.append)
    assert len(told) == 1
    assert not page.exists()
    page.write_text("of another command\n")
    publish(Mode.AUTO, [failed()], {}, told.append)
    assert len(told) == 2
    assert page.read_text().startswith("of another command\n## traincheck: 1 failed of 1 pipeline")


def test_a_summary_that_is_nearly_full_is_not_overfilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    for taken in (github.SUMMARY_LIMIT - 50, github.SUMMARY_LIMIT - 2000):
        page.write_text("x" * taken)
        publish(Mode.AUTO, [failed(count=40)], {}, print)
        assert taken <= page.stat().st_size <= github.SUMMARY_LIMIT


def test_a_summary_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    with pytest.raises(ReportError, match="Cannot write the job summary"):
        publish(Mode.AUTO, [failed()], {}, print)


YAML = "@@ -3,4 +3,5 @@\n model: small\n optimizer:\n-  lr: 0.1\n+  lr: 0.2\n+  nesterov: true\n seed: 0"


def test_an_annotation_stands_at_the_changed_line_of_another_file() -> None:
    """GitHub shows none in a pull request that does not touch the file."""
    result = failed()
    (incident,) = result.incidents
    changed = replace(incident, diff=ChangedLines("conf/train.yaml", YAML, "another file", 2))
    (line,) = github.annotation_lines([replace(result, incidents=(changed,))], {"net": PLACE})
    properties = decoded(line)[1]
    assert (properties["file"], properties["line"]) == ("training/conf/train.yaml", "5")


def test_a_change_in_the_file_itself_is_told_where_it_had_an_effect() -> None:
    result = failed()
    (incident,) = result.incidents
    changed = replace(incident, diff=ChangedLines("train.py", YAML, "same file", 2))
    (line,) = github.annotation_lines([replace(result, incidents=(changed,))], {"net": PLACE})
    assert decoded(line)[1]["line"] == "41"


def test_code_without_a_file_has_no_place() -> None:
    (line,) = github.annotation_lines([failed(replace(ROOT, source="<string>:5"))], {"net": PLACE})
    assert set(decoded(line)[1]) == {"title"}


@pytest.mark.parametrize(("focus", "line"), [(0, 5), (2, 5), (3, 5), (4, 6)])
def test_the_changed_line_is_that_of_the_candidate(focus: int, line: int) -> None:
    assert changed_line(YAML, focus) == line


def test_lines_of_a_second_hunk_are_counted_from_its_head() -> None:
    text = f"{YAML}\n@@ -40,2 +41,3 @@\n a\n+b\n c"
    assert changed_line(text, 8) == 42
