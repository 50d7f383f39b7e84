"""A relation: what is saved, is saved after the last step."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from pytest_traincheck.api import Claim, Deviation, Examples, Finding, Hypothesis, Meaning, Relation, rank_label


@dataclass(frozen=True)
class SavedAfter(Claim):
    """Something is saved after this."""

    after: Literal["last step"]


class SavedLast(Relation):
    """Something is saved after the last optimizer step."""

    name = "SavedLast"
    claims = (SavedAfter,)

    def layer(self, claim):
        return 1  # about a call: a cause rather than an effect

    def meaning(self, rule):
        return Meaning(general=True)  # whatever is trained: a result is saved when it is complete

    def hypotheses(self, run):
        yield Hypothesis(self.name, "torch.save", SavedAfter("last step"))

    def examples(self, claim, run):
        parts = []
        for position, process in enumerate(run.processes):
            if not process.steps:
                continue
            last = process.steps[-1].row
            saves = [row for row in process.rows_of_type("io").tolist() if process.api[row] == "torch.save"]
            parts.append(
                Examples(
                    holds=np.array([any(row > last for row in saves)]),
                    process=np.array([position]),
                    row=np.array([last]),
                    variable=np.array([0]),
                    context={"rank": rank_label(process, 1)},
                )
            )
        return Examples.concatenate(parts)

    def sentence(self, claim, subject, when):
        return f"`{subject}` is called after the {claim.after} of a run{when}."

    def finding(self, invariant, run, examples, broken):
        return Finding(
            title=f"`{invariant.subject}` was called after the last optimizer step in the golden run, but no longer.",
            golden="saved after the last step",
            candidate="not saved after the last step",
            deviation=Deviation.MISPLACED,
        )
