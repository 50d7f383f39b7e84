"""Where the whole change is one, it is shown, wherever it lies; what changes no program is no part of it."""

from __future__ import annotations

from pytest_traincheck.check.blocks import MAX_LINES, ChangedFile
from pytest_traincheck.check.hunks import attach
from pytest_traincheck.check.ran import Ran
from pytest_traincheck.check.result import ChangedLines, Incident, Violation
from pytest_traincheck.check.standing import Known
from pytest_traincheck.relations.stored import claim_of
from pytest_traincheck.rules.model import Invariant, Kind, Scope

DATA = """\
import torch


def standardised(values):
    centre = values.mean(0)
    spread = values.std(0)
    return (values - centre) / spread


def halved(values):
    return values / 2


def labelled(values):
    \"\"\"Which of the first columns is the largest.\"\"\"
    return values[:, :4].argmax(1)
"""

CLAIM = {"api": "torch.nn.functional.relu", "dtype": "float32"}
RULE = Invariant(
    "APIOutput", "torch.nn.functional.relu", claim_of("APIOutput", CLAIM), (), Scope.PINNED, Kind.BEHAVIOUR, "", 9, 3
)
INCIDENT = Incident("id", 1, Violation(RULE, "", "", "", 1, "train", (0,), 5, source="train.py:5"))
"""At a line that no change is near to, about a function that none names."""


def shown(known: Known | None = None, **files: tuple[str, str]) -> ChangedLines | None:
    named = {name.replace("__", "/").replace("_dot_", "."): texts for name, texts in files.items()}
    (found,) = attach([INCIDENT], named, known)
    return found.diff


def edited(*replacements: tuple[str, str], text: str = DATA) -> tuple[str, str]:
    new = text
    for before, after in replacements:
        assert before in new
        new = new.replace(before, after)
    return text, new


def test_a_few_places_of_one_file_are_shown_together() -> None:
    diff = shown(lib__data_dot_py=edited(("std(0)", "std()"), ("argmax", "argmin")))
    assert diff is not None
    assert (diff.file, diff.how, diff.focus) == ("lib/data.py", "the only change", 4)
    heads = [line for line in diff.hunk.splitlines() if line.startswith("@@")]
    assert heads == ["@@ -3,7 +3,7 @@", "@@ -13,4 +13,4 @@"]
    assert "+    spread = values.std()" in diff.hunk
    assert "+    return values[:, :4].argmin(1)" in diff.hunk


def test_many_places_of_one_file_are_no_answer() -> None:
    text = "".join(f"a{number} = {number}\n" for number in range(200))
    new = "".join(f"a{number} = {number + (number % 20 == 0)}\n" for number in range(200))
    assert shown(data_dot_py=(text, new)) is None


def test_a_long_hunk_is_one_change_however_many_lines_it_has() -> None:
    more = "".join(f"    a{number} = {number}\n" for number in range(MAX_LINES))
    diff = shown(data_dot_py=edited(("    centre", f"{more}    centre"), ("    return (", f"{more}    return (")))
    assert diff is not None
    assert diff.how == "the only change"
    assert len(diff.hunk.splitlines()) == MAX_LINES + 1


def test_two_files_are_no_single_change() -> None:
    assert shown(data_dot_py=edited(("std(0)", "std()")), conf_dot_yaml=("a: 1\n", "a: 2\n")) is None


def test_files_of_any_kind_that_are_all_that_changed() -> None:
    for name, texts in {
        "conf_dot_yaml": ("hidden: 24\n", "hidden: 25\n"),
        "conf_dot_json": ('{"hidden": 24}\n', '{"hidden": 25}\n'),
        "words_dot_txt": ("# a\nb\n", "# b\nb\n"),
        "lib____init___dot_py": ("", "import torch\n\ntorch.set_default_dtype(torch.float64)\n"),
        "gone_dot_py": (DATA, ""),
        "setup_dot_py": ("a = 1\n", "a = 2\n"),
    }.items():
        diff = shown(**{name: texts})
        assert diff is not None, name
        assert diff.how == "the only change"


def test_a_comment_is_none_in_a_file_of_data_and_one_in_settings() -> None:
    assert shown(conf_dot_yaml=("# a\nb: 1\n", "# b\nb: 1\n")) is None


def test_layout_and_documentation_are_no_part_of_a_change() -> None:
    texts = edited(
        ("Which of the first columns is the largest.", "The largest of the first columns."),
        ("std(0)", "std()"),
        ("return values / 2", "return (\n        values / 2\n    )"),
        ("import torch\n", "import torch  # for tensors\n"),
    )
    diff = shown(data_dot_py=texts)
    assert diff is not None
    assert diff.how == "the only change"
    assert diff.hunk.splitlines()[diff.focus] == "-    spread = values.std(0)"
    assert len(ChangedFile("data.py", *texts).blocks) == 1


def test_a_line_that_leaves_its_loop_has_changed() -> None:
    loop = "for batch in data:\n    use(batch)\n    optimizer.step()\n"
    diff = shown(fit_dot_py=(loop, loop.replace("    optimizer", "optimizer")))
    assert diff is not None
    assert "+optimizer.step()" in diff.hunk


def test_a_text_that_is_part_of_the_program_has_changed() -> None:
    diff = shown(fit_dot_py=('MODE = """\nmean\n"""\n', 'MODE = """\nsum\n"""\n'))
    assert diff is not None


def test_the_new_name_of_a_file_is_no_part_of_a_change() -> None:
    """`lib/data.py` became `lib/batches.py`, and those who import it follow; one line in it is different."""
    users = ("from lib.data import halved\nprint(halved)\n", "from lib.batches import halved\nprint(halved)\n")
    known = Known(renamed={"lib/batches.py": "lib/data.py"})
    diff = shown(known, lib__batches_dot_py=edited(("std(0)", "std()")), train_dot_py=users)
    assert diff is not None
    assert (diff.file, diff.how) == ("lib/batches.py", "the only change")
    assert shown(Known(), lib__batches_dot_py=edited(("std(0)", "std()")), train_dot_py=users) is None


def test_a_move_to_another_folder_is_followed_from_where_both_differ() -> None:
    users = ("import src.lib.data\n", "import src.core.feed.data\n")
    known = Known(renamed={"src/core/feed/data.py": "src/lib/data.py"})
    diff = shown(known, src__core__feed__data_dot_py=edited(("std(0)", "std()")), train_dot_py=users)
    assert diff is not None


def test_what_the_candidate_did_not_read_does_not_hide_the_only_change_that_it_did() -> None:
    ran = Ran({}, frozenset(), frozenset(), frozenset({"lib/data.py"}), frozenset())
    bump = ("version = 1\n", "version = 2\n")
    diff = shown(Known(ran), lib__data_dot_py=edited(("std(0)", "std()")), setup_dot_py=bump)
    assert diff is not None
    assert (diff.file, diff.how) == ("lib/data.py", "the only change that runs")


def test_what_names_the_place_comes_last_in_a_file_that_was_not_read() -> None:
    """A test that calls `relu` was changed together with two places of the program."""
    ran = Ran({}, frozenset(), frozenset(), frozenset({"lib/data.py", "lib/more.py"}), frozenset())
    test = ("relu(1)\n", "relu(2)\n")
    program = {"lib__data_dot_py": edited(("std(0)", "std()")), "lib__more_dot_py": ("a = 1\n", "a = 2\n")}
    diff = shown(Known(ran), tests__test_data_dot_py=test, **program)
    assert diff is not None
    assert (diff.file, diff.how) == ("tests/test_data.py", "another file")
    program["lib__more_dot_py"] = ("relu(a)\n", "relu(b)\n")
    diff = shown(Known(ran), tests__test_data_dot_py=test, **program)
    assert diff is not None
    assert diff.file == "lib/more.py"
