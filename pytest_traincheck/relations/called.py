"""What `Count` and `Total` count the calls of, and how rules write it."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_traincheck.relations import vocabulary
from pytest_traincheck.rules.claims import Written

FORWARD = "torch.nn.Module.forward"
_OWNER, _STAGE = "|", " in "
_STAGES = {"train": " in training", "eval": " in evaluation", "init": " during set-up"}


@dataclass(frozen=True, order=True)
class Called(Written):
    """An API, or something that has a name of its own; of one optimizer or model, by its label; of a model in a stage.

    As text `torch.optim.Adam.step`, `torch.optim.Adam.step|Adam[Generator]`, `torch.nn.Module.forward|Net in eval`.
    """

    api: str
    owner: str = ""
    stage: str = ""

    def __str__(self) -> str:
        text = f"{self.api}{_OWNER}{self.owner}" if self.owner or self.stage else self.api
        return f"{text}{_STAGE}{self.stage}" if self.stage else text

    @classmethod
    def read(cls, text: str) -> Called:
        """What `str` wrote."""
        api, _, owner = text.partition(_OWNER)
        stage = ""
        if api == FORWARD and _STAGE in owner:
            owner, _, stage = owner.rpartition(_STAGE)
        return cls(api, owner, stage)

    @property
    def model(self) -> str:
        """The model whose calls these are; empty for everything else."""
        return self.owner if self.api == FORWARD and self.stage else ""

    @property
    def code(self) -> str:
        """As it is written in a sentence: names of APIs as code, concepts as words."""
        if self.api == vocabulary.MASKING:
            return f"{self.api} (`masked_fill`, or attention with a mask)"
        owner = f" of `{self.owner}`{_STAGES.get(self.stage, '')}" if self.owner or self.stage else ""
        return f"`{self.api}`{owner}"
