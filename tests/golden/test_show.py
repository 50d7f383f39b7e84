"""`traincheck show`: the rules as a person reads them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.show import render
from pytest_traincheck.rules.conditions import Clause, Except, Exists, Same


def test_the_whole_golden(golden: Golden) -> None:
    text = render(golden)
    assert text.splitlines()[0] == "tiny_gpt: 3 rules"
    assert "learned from  3 runs (seeds 0, 1, 2)" in text
    assert "python 3.11.7, torch 2.13.0" in text
    assert "GPT (2 variables)" in text
    assert "first golden" in text
    assert "\ntorch.optim.AdamW\n  - `AdamW(lr)` is 0.001.\n      pinned, config; 3 examples in 3 runs; APIArg " in text
    assert "      when stage is not train or init\n" in text
    assert text.index("torch.nn.Dropout") < text.index("torch.optim.AdamW\n") < text.index("torch.optim.AdamW.step\n")


def test_every_sort_of_condition(golden: Golden) -> None:
    both = Except((Clause("stage", ("eval",)), Clause("rank", ("other",))))
    when = (Exists("root"), Exists("optimizer", negated=True), Same("child", "root"), both)
    text = render(replace(golden, invariants=(replace(golden.invariants[0], when=when),)))
    assert (
        "when there is a model, and there is no optimizer, and it is directly in the model, "
        "and not (stage is eval and rank is other)\n"
    ) in text


def test_one_subject_by_name_glob_or_part(golden: Golden) -> None:
    assert render(golden, "torch.optim.AdamW").startswith("tiny_gpt: 1 rule of 3\n")
    assert render(golden, "torch.optim.*").startswith("tiny_gpt: 2 rules of 3\n")
    assert render(golden, "AdamW").startswith("tiny_gpt: 2 rules of 3\n")


def test_unknown_subject_names_the_nearest(golden: Golden) -> None:
    with pytest.raises(GoldenError, match=r"No rule of 'tiny_gpt' is about 'torch.optim.Adam2'.*torch\.optim\.AdamW"):
        render(golden, "torch.optim.Adam2")


def test_nothing_steers_the_terminal(golden: Golden) -> None:
    rule = replace(golden.invariants[0], sentence="\x1b]0;title\x07red\x1b[31m\r\nline\u202e", subject="a\x1b[2Jb")
    text = render(replace(golden, invariants=(rule,), reason="\x9b31m\x00"))
    assert not {"\x1b", "\r", "\u202e", "\x9b", "\x00"} & set(text)
    assert "  - red line\n" in text


def test_an_id_is_computed_once(golden: Golden) -> None:
    """A golden of 40 MB has a hundred thousand rules, and each is asked for its id several times."""
    assert all(rule.id is rule.id for rule in golden.invariants)
