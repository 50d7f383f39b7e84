"""Each picture answers its question: of what there is to see, in words and as a drawing."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from page_states import (
    BACK,
    BATCH,
    BROKEN,
    CALLS,
    CLEAR,
    GOLDEN,
    GROUP,
    MODULES,
    NET,
    SAME,
    STEP,
    bisected,
    curve,
    outline,
    rank,
    refreshed,
    selftested,
)

from pytest_traincheck.check.result import CheckResult, ModuleAgreement
from pytest_traincheck.golden.portrait import Call, Group, Outline, Portrait
from pytest_traincheck.report.check_pictures import first_bad_step, pictures_of
from pytest_traincheck.report.pictures.commits import commits
from pytest_traincheck.report.pictures.curves import Panel, curves
from pytest_traincheck.report.pictures.groups import count, groups
from pytest_traincheck.report.pictures.mutants import mutants
from pytest_traincheck.report.pictures.observed import observed
from pytest_traincheck.report.pictures.ranks import ranks
from pytest_traincheck.report.pictures.scale import linear, logarithmic, short
from pytest_traincheck.report.pictures.stripes import stripes
from pytest_traincheck.report.pictures.subjects import subjects
from pytest_traincheck.report.pictures.svg import drawing, element, fitted, number, text
from pytest_traincheck.report.pictures.timeline import aligned, timeline
from pytest_traincheck.report.pictures.tree import begins, tree


def test_markup_is_escaped_and_numbers_are_short() -> None:
    assert number(1.0) == "1"
    assert number(2.3456) == "2.3"
    assert text("<b>", 1.0, 2.0, "x") == '<text x="1" y="2" class="x">&lt;b&gt;</text>'
    assert element("g", class_='"><') == '<g class="&#34;&gt;&lt;"/>'
    assert 'role="img"' in drawing(10.0, 10.0, "a", "b")
    assert fitted("a.very.long.name", 60) == "…ong.name"
    assert fitted("short", 60) == "short"


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.0, 0.0], [5.0, 5.0], [-3.0, 2.0], [1e-9, 2e-9], [1.0, 1e6]])
def test_axes_have_a_few_round_numbers(values: list[float]) -> None:
    scale = linear(values, 100.0, 0.0)
    assert 2 <= len(scale.ticks()) <= 7
    assert all(0.0 <= scale(value) <= 100.0 for value in (*values, *scale.ticks()))


def test_wide_ranges_are_drawn_by_their_logarithm() -> None:
    scale = logarithmic([0.001, 1000.0], 100.0, 0.0)
    assert scale.ticks()[0] == pytest.approx(0.001)
    assert scale(0.001) > scale(1.0) > scale(1000.0)
    assert short(math.inf) == "not finite"


def test_curves_within_the_band() -> None:
    picture = curves(SAME, GOLDEN)
    assert picture is not None
    assert picture.answer.startswith("Yes")
    assert len(picture.drawings) == 3
    assert all('class="p-band"' in drawn for drawn in picture.drawings)
    assert "p-mark" not in picture.drawings[0]


def test_what_is_kept_with_fewer_digits_is_no_difference() -> None:
    exact = replace(SAME, curves=(curve("0", 2.0, 1.73695, 1.00004, 0.812345),))
    kept = Portrait.from_json(replace(GOLDEN, curves=exact.curves).to_json())
    picture = curves(exact, kept)
    assert picture is not None
    assert picture.answer.startswith("Yes")


def test_another_seed_may_leave_the_band() -> None:
    other = replace(SAME, seed="7", curves=(curve("7", 2.0, 1.2, 1.0, 0.8),))
    picture = curves(other, GOLDEN)
    assert picture is not None
    assert picture.answer.startswith("Not in every step, and with a seed of its own it need not: ")


def test_curves_that_leave_the_band_say_where() -> None:
    picture = curves(BROKEN, GOLDEN, 1)
    assert picture is not None
    assert "the learning rate from step 0" in picture.answer
    assert "the loss from step 1 on" in picture.answer
    assert "p-mark" in picture.drawings[0]
    assert "not finite" in picture.drawings[0]
    assert picture.table.columns[:3] == ("step", "loss, golden", "loss, candidate")
    assert picture.table.rows[0][1:3] == ("2 to 2.1", "2")


def test_curves_stand_alone_where_golden_has_none() -> None:
    picture = curves(BROKEN, None)
    assert picture is not None
    assert "p-band" not in picture.drawings[0]
    assert curves(Portrait("0", (curve("0", 1.0),)), None) is None, "one step is no curve"


def test_a_gap_is_no_line() -> None:
    panel = Panel("loss", ((1.0, 2.0), (3.0, 4.0)), (math.nan, 2.5))
    assert panel.left() is None
    assert panel.band(1) == (2.0, 4.0)
    assert panel.band(2) is None


def test_the_first_call_that_differs_is_marked() -> None:
    picture = timeline(BROKEN, GOLDEN, 1)
    assert picture is not None
    assert "torch.optim.AdamW.zero_grad" in picture.answer
    assert "does not make" in picture.answer
    (drawn,) = picture.drawings
    assert "first difference" in drawn
    assert drawn.count("p-missing") == 1
    assert picture.table.rows[1] == ("2", CLEAR.name, "not called", "first difference")


def test_a_call_that_is_new_is_marked() -> None:
    candidate = replace(GOLDEN, outline=outline(*CALLS[:-1], Call("clip", "clip_grad_norm_"), STEP))
    picture = timeline(candidate, GOLDEN)
    assert picture is not None
    assert "makes in addition" in picture.answer
    assert "p-added" in picture.drawings[0]


def test_calls_that_are_the_same_do_not_part() -> None:
    picture = timeline(SAME, GOLDEN)
    assert picture is not None
    assert picture.answer == "They do not part: the same 6 calls in the same order."
    assert "first difference" not in picture.drawings[0]


def test_a_long_step_is_cut_around_the_difference() -> None:
    many = outline(*(NET, BACK) * 60)
    fewer = outline(*(NET, BACK) * 40, NET, *(NET, BACK) * 19)
    picture = timeline(replace(GOLDEN, outline=fewer), replace(GOLDEN, outline=many))
    assert picture is not None
    assert "left out here" in picture.answer
    assert len(picture.table.rows) == 64
    assert any(row[3] == "first difference" for row in picture.table.rows)


def test_many_sorts_of_calls_share_a_lane() -> None:
    calls = tuple(Call("function", f"torch.f{place}") for place in range(30))
    picture = timeline(replace(GOLDEN, outline=outline(BATCH, *calls)), None)
    assert picture is not None
    assert "other calls" in picture.drawings[0]
    assert "next batch" in picture.drawings[0]


def test_sequences_are_aligned() -> None:
    beats = aligned((BATCH, CLEAR, NET), (BATCH, NET, BACK))
    assert [(beat.golden, beat.candidate) for beat in beats] == [
        (True, True), (True, False), (True, True), (False, True)
    ]  # fmt: skip
    assert timeline(replace(GOLDEN, outline=Outline()), GOLDEN) is None


def test_the_tree_begins_with_the_innermost_that_deviates() -> None:
    picture = tree(MODULES)
    assert picture is not None
    assert begins(MODULES) == "Net.blocks.0.fc"
    assert picture.answer.startswith("`Net.blocks.0.fc`, which is 2 % off")
    assert picture.drawings[0].count("p-start") == 1
    assert [row[0] for row in picture.table.rows][:2] == ["Net", "Net.stem"]


def test_a_tree_without_deviations_is_folded() -> None:
    modules = [ModuleAgreement("Net", "same", 0.0, 1)]
    for block in range(30):
        modules += [ModuleAgreement(f"Net.blocks.{block}.{part}", "same", 0.0, 1) for part in "abc"]
    picture = tree(modules)
    assert picture is not None
    assert picture.answer.startswith("None: 91 of 91 modules")
    assert picture.drawings[0].count("<rect") < 12
    assert len(picture.table.rows) == 91


def test_what_deviates_is_never_folded() -> None:
    modules = [ModuleAgreement(f"Net.blocks.{place}.fc.inner.weight", "same", 0.0, 1) for place in range(60)]
    modules[41] = ModuleAgreement("Net.blocks.41.fc.inner.weight", "deviates", math.inf, 1)
    picture = tree(modules)
    assert picture is not None
    assert "infinitely far" in picture.answer
    assert "starts here" in picture.drawings[0]
    assert tree([]) is None


def test_nothing_comparable_is_said() -> None:
    picture = tree([ModuleAgreement("Net", "not comparable", 0.0, 1)])
    assert picture is not None
    assert picture.answer.startswith("None can be compared")


def test_batches_the_same_shuffled_repeated_new() -> None:
    given = replace(GOLDEN, ranks=(rank(0, "acax"),))
    picture = stripes(given, GOLDEN)
    assert picture is not None
    assert picture.answer == (
        "No: from step 1 on they are others. 1 of 4 is golden's of the same place, 1 is golden's of another place, "
        "1 is given a second time, 1 is not among golden's."
    )
    assert [row[2] for row in picture.table.rows[4:]] == ["A", "C", "A", "E"]
    for sort in ("same", "moved", "repeated", "new"):
        assert f"p-batch-{sort}" in picture.drawings[0]
    same = stripes(GOLDEN, GOLDEN)
    assert same is not None
    assert same.answer.startswith("Yes: all 4")


def test_batches_of_another_seed_are_not_compared() -> None:
    picture = stripes(replace(GOLDEN, seed="3"), GOLDEN)
    assert picture is not None
    assert "another seed" in picture.answer
    assert stripes(replace(GOLDEN, ranks=()), GOLDEN) is None


def test_groups_say_what_changed() -> None:
    picture = groups(BROKEN, GOLDEN)
    assert picture is not None
    assert "1 trainable parameter is in none" in picture.answer
    assert "lr 0.1, was 0.01 and 3 parameters, was 4" in picture.answer
    assert "p-nobody" in picture.drawings[0]
    same = groups(GOLDEN, GOLDEN)
    assert same is not None
    assert same.answer == "4 parameters in 1 group. As in the golden run."
    gone = groups(replace(GOLDEN, groups=(replace(GROUP, index=1),)), GOLDEN)
    assert gone is not None
    assert "group 0 is gone" in gone.answer
    assert groups(replace(GOLDEN, groups=(Group("", 0, 1, 1, 1),)), None) is None
    assert [count(value) for value in (812, 1200, 34_000_000, 7 * 10**9)] == ["812", "1.2 k", "34 M", "7 G"]


def test_ranks_that_go_apart() -> None:
    picture = ranks(BROKEN, GOLDEN)
    assert picture is not None
    assert picture.answer.startswith("Gradient norms differ between ranks from step 0 on, in 4 steps.")
    assert picture.answer.endswith("It was otherwise in the golden run.")
    assert "≠" in picture.drawings[0]
    same = ranks(GOLDEN, GOLDEN)
    assert same is not None
    assert same.answer.endswith("So it was in the golden run.")
    assert ranks(replace(GOLDEN, ranks=GOLDEN.ranks[:1]), GOLDEN) is None


def test_ranks_that_are_given_the_same() -> None:
    picture = ranks(replace(GOLDEN, ranks=(rank(0, "abcd"), rank(1, "ebfd"))), None)
    assert picture is not None
    assert "In 2 steps, the first of them 1, ranks are given the same batch." in picture.answer


def test_what_was_looked_at(failed: CheckResult) -> None:
    picture = observed(failed)
    assert picture is not None
    assert picture.answer == "34 of 36 rules were evaluated (94 %)."
    shares = {row[0]: row[2:] for row in picture.table.rows}
    assert shares["EventContain"][0].endswith("of 34") or shares
    assert any("no GPU in the candidate run" in row[3] or "never was in eval" in row[3] for row in picture.table.rows)
    assert observed(replace(failed, verdicts=())) is None


def test_subjects_before_and_after(failed: CheckResult) -> None:
    item = refreshed(failed)
    assert item.change is not None
    picture = subjects(item.change, item.learned)
    assert picture is not None
    assert picture.answer.startswith(f"{len(item.change.subjects)} subjects changed: 2 rules added, 1 rule removed")
    assert len(picture.table.rows) == len(item.change.subjects)
    assert subjects(replace(item.change, added=(), removed=(), changed=()), item.learned) is None


def test_mistakes_have_shapes_of_their_own(passed: CheckResult) -> None:
    picture = mutants(selftested(passed).mutants)
    assert picture is not None
    assert picture.answer.startswith("2 were found and 1 not.")
    assert len(set(re.findall(r"p-fate-\d", picture.drawings[0]))) == 5
    assert mutants(()) is None


def test_commits_in_the_order_in_which_they_were_tried(failed: CheckResult) -> None:
    picture = commits(bisected(failed))
    assert picture.answer.startswith("`bbbbbbbbbbbb`, found among 3 tried commits")
    assert "first bad commit" in picture.drawings[0]
    assert [row[1] for row in picture.table.rows] == ["good", "skip", "bad"]
    nobody = commits(replace(bisected(failed), first_bad=None))
    assert "between which nothing decides" in nobody.answer


def test_what_is_wrong_from_the_beginning_is_wrong_in_step_0(failed: CheckResult, passed: CheckResult) -> None:
    assert first_bad_step(failed) == 0
    assert first_bad_step(replace(failed, incidents=failed.incidents[:1])) == 1
    assert first_bad_step(passed) is None
    assert [picture.name for picture in pictures_of(passed)] == ["observed"]
