"""What a training is held against while it goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pytest_traincheck.check.result import SideInfo
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.rules.model import Scope
from pytest_traincheck.workflow.policy import Rules


@dataclass(frozen=True)
class Against:
    """What a training is held against.

    `path` is the file of the golden, which holds the numbers of each platform beside it; None for one that was learned
    just now. `same_spec` and `other_length` are as in `check_run`.
    """

    golden: Golden
    path: Path | None
    same_spec: bool
    other_length: bool
    rules: Rules
    side: SideInfo
    seed: int | None = None
    """The seed that the training was started with, as far as its command says so."""
    differs: str = ""
    """In which words its command is another one than golden's, where it is."""

    @property
    def where(self) -> str:
        """Which golden, in words, and what of it applies."""
        where = str(self.path) if self.path is not None else f"commit {self.golden.commit[:12]}"
        if self.same_spec:
            return where
        return f"{where}; {self.reduced}"

    @property
    def reduced(self) -> str:
        """What is not checked since the command is another one, and in what; nothing where it is golden's."""
        if self.same_spec:
            return ""
        transferable = sum(rule.scope is Scope.TRANSFERABLE for rule in self.golden.invariants)
        return (
            f"the command is another one than golden's ({self.differs or 'it is not known'}), so that of its "
            f"{len(self.golden.invariants)} rules only the {transferable} are checked that hold for other commands too"
        )
