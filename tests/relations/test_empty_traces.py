"""No relation stumbles over a run in which next to nothing was recorded."""

from __future__ import annotations

import pytest
from training_story import Loop, Measured, Recorder, Story, Training

from pytest_traincheck.relations import Examples, relations
from pytest_traincheck.relations.base import Measured as NumericRelation
from pytest_traincheck.trace import Run


def bare(t: Training) -> None:
    """One optimizer step, and nothing else."""
    t.step(t.adamw([]))


def only_backward(t: Training) -> None:
    t.backward()


def one_step(t: Training) -> None:
    Measured(steps=1).tell(t)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("story", [bare, only_backward, one_step], ids=["bare", "only backward", "one step"])
@pytest.mark.parametrize("name", sorted(relations()))
def test_hypotheses_and_examples_of_an_almost_empty_run(
    recorder: Recorder, name: str, story: Story, ranks: int
) -> None:
    relation = relations()[name]
    run = recorder.tell(story, ranks=ranks)
    for hypothesis in relation.hypotheses(run):
        claim = hypothesis.claim
        relation.sentence(claim, hypothesis.subject, "")
        if not isinstance(relation, NumericRelation):
            assert isinstance(relation.examples(claim, run), Examples)


@pytest.mark.parametrize("story", [bare, only_backward, one_step], ids=["bare", "only backward", "one step"])
def test_everything_that_a_rich_golden_knows_can_be_asked_of_an_almost_empty_run(
    recorder: Recorder, story: Story
) -> None:
    def rich(t: Training) -> None:
        def batch(_step: int) -> None:
            t.measure("batch.size", 4.0)
            t.measure("batch.lead", 4.0)

        def loss(_step: int) -> None:
            t.measure("loss.input=other")
            t.measure("loss.shift", 1.0)

        def backward(_step: int) -> None:
            t.measure("backward.root", 0.5)
            t.measure("loss.terms", 2.0)
            t.measure("loss.terms.fine", 2.0)

        def forward(step: int) -> None:
            t.measure("model.input", digest=step + 1)

        def begin(step: int) -> None:
            if step == 0:
                t.measure("optimizer.state", 0.0, optimizer=1)
            else:
                t.measure("optimizer.held", 3.0, optimizer=1)
            t.measure("optimizer.left", 3.0, optimizer=1)

        Measured(batch=batch, forward=forward, loss=loss, backward=backward, step=begin).tell(t)

    for golden in (recorder.learn(rich), recorder.golden(Loop(ranks=2, ema=True, buffers=("norm.mean",)))):
        recorder.judge(golden, story, ranks=2)


def test_a_run_without_rows(recorder: Recorder) -> None:
    run: Run = recorder.tell(bare)
    empty = Run(run.path, ())
    for relation in relations().values():
        for hypothesis in relation.hypotheses(empty):
            if not isinstance(relation, NumericRelation):
                assert not len(relation.examples(hypothesis.claim, empty))
