"""What holds for every law: its reason is complete, and it says nothing of what it is not about."""

from __future__ import annotations

import ast
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from law_verdict import verdict
from training_story import BACKWARD, Loop, Training

from pytest_traincheck.relations.laws.law import Always
from pytest_traincheck.relations.registry import laws, relations

if TYPE_CHECKING:
    from training_story import Recorder

NAMES = sorted(laws())
HOSTS = {
    "docs.pytorch.org": ("/docs/stable/", "/tutorials/"),
    "huggingface.co": ("/docs/",),
    "lightning.ai": ("/docs/",),
}
"""Whose pages a law may cite, and where their documentation lies: no forum, no blog, no version that goes away."""
LIBRARIES = {"torch", "torch-distributed", "transformers", "lightning", "accelerate", "peft", "deepspeed"}


def nothing(t: Training) -> None:
    """A backward pass and nothing around it."""
    with t.call(BACKWARD, type="autograd", args={}):
        pass


def test_names_are_those_of_no_relation() -> None:
    assert not set(NAMES) & set(relations())


def test_slugs_are_unique() -> None:
    slugs = [laws()[name].reason(Always()).slug for name in NAMES]

    assert len(slugs) == len(set(slugs))


@pytest.mark.parametrize("name", NAMES)
def test_reason_is_complete(name: str) -> None:
    reason = laws()[name].reason(Always())

    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", reason.slug)
    assert reason.why.endswith(".")
    assert reason.remedy.endswith(".")
    assert reason.library in LIBRARIES


@pytest.mark.parametrize("name", [name for name in NAMES if laws()[name].reason(Always()).link])
def test_link_is_a_page_of_a_documentation(name: str) -> None:
    link = laws()[name].reason(Always()).link
    page = urlsplit(link)

    assert page.scheme == "https"
    assert page.netloc in HOSTS
    assert page.path.startswith(HOSTS[page.netloc])
    assert page.path.endswith(".html") or page.netloc != "docs.pytorch.org"
    assert not page.query
    assert re.fullmatch(r"[A-Za-z0-9_.-]*", page.fragment)
    assert link == page.geturl()
    assert link.isascii()
    assert not re.search(r"\s", link)


def test_most_laws_have_a_link() -> None:
    """One that has none says what no page of a documentation does."""
    reasons = [laws()[name].reason(Always()) for name in NAMES]

    assert sum(bool(reason.link) for reason in reasons) > len(reasons) / 2


@pytest.mark.parametrize("name", NAMES)
def test_examples_are_code(name: str) -> None:
    law: Any = laws()[name]

    for code in (law.right, law.wrong):
        ast.parse(textwrap.dedent(code).replace("return ", "pass;  "))
    assert law.right != law.wrong


@pytest.mark.parametrize("name", NAMES)
def test_sentence_takes_a_precondition(name: str) -> None:
    law = laws()[name]

    assert law.sentence(Always(), "", ", on rank 0").endswith(", on rank 0.")


def test_silent_where_nothing_happens(recorder: Recorder) -> None:
    run = recorder.tell(nothing)

    assert {name: verdict(name, run) for name in NAMES} == dict.fromkeys(NAMES, "silent")


RIGHT = {
    "the usual loop": Loop(),
    "cleared at the end": Loop(zero_grad="bottom"),
    "cleared by hand": Loop(zero_grad="assign"),
    "frozen parameters": Loop(frozen=("fc1.weight", "fc1.bias")),
    "tied weights": Loop(parameters={"a.weight": (4, 3), "b.weight": (4, 3)}, tied={"b.weight": "a.weight"}),
    "several passes": Loop(microbatches=4),
    "no clipping and no schedule": Loop(clip=None, schedule="never"),
    "several ranks": Loop(ranks=2, wrapper="torch.nn.parallel.DistributedDataParallel"),
    "one step": Loop(steps=1, evaluate_after=()),
    "autocast": Loop(autocast="bfloat16"),
}


@pytest.mark.parametrize("kind", RIGHT)
def test_right_training_breaks_none(kind: str, recorder: Recorder) -> None:
    run = recorder.record(RIGHT[kind])

    assert [name for name in NAMES if verdict(name, run) == "broken"] == []


def test_every_law_has_a_file_of_tests() -> None:
    texts = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_law_*.py"))

    assert [name for name in NAMES if f'"{name}"' not in texts] == []
