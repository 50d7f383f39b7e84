"""What is known of a training script from its source."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Unknown(Enum):
    """The default of an option that the source does not spell out."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN


@dataclass(frozen=True)
class Option:
    """One setting that a script takes from its command line.

    `spelled` is how it is written there: `--max-steps`, `trainer.max_steps=` where the value follows in the same word,
    or nothing for an argument that has its place and no name.
    """

    name: str
    spelled: str
    default: object = UNKNOWN
    kind: str = ""
    """The name of its type, as far as the source says it: `int`, `str`, `bool`."""
    choices: tuple[str, ...] = ()
    required: bool = False
    about: str = ""
    """What its help says."""

    def with_value(self, value: str) -> str:
        """The option with a value, as it is typed."""
        joint = "" if not self.spelled or self.spelled.endswith("=") else " "
        return f"{self.spelled}{joint}{value}"


class Style(str, Enum):
    """How a script takes its settings."""

    NONE = "no options"
    OPTIONS = "options"
    KEYS = "key=value settings"
    HYDRA = "Hydra"
    CLI = "a command line of its trainer"


@dataclass(frozen=True)
class Evidence:
    """Why a script is taken for one that trains: what it does, and where."""

    what: str
    place: str
    """`train.py:41`."""
    own: bool = True
    """Whether that is in the script itself, and not in what it imports."""


@dataclass(frozen=True)
class Script:
    """A program of the repository that trains. Paths are relative to its top, with `/`."""

    path: str
    evidence: Evidence
    style: Style
    options: tuple[Option, ...] = ()
    sources: tuple[str, ...] = ()
    """The script and what it imports of the repository."""
    module: str = ""
    """The name to run it by with `python -m`, where it is part of a package that it imports from."""
    ranks: bool = False
    """Whether it can only be started by a launcher of several ranks."""
    first: tuple[str, ...] = ()
    """Words that stand in front of its options, as the command of a trainer's command line."""
    settled: tuple[tuple[Option, str], ...] = ()
    """Options whose value for a short run is known from its library."""
    constant_seeds: tuple[str, ...] = ()
    """Where it seeds a generator with a constant."""
    texts: tuple[str, ...] = ()
    """Texts in its source that may be paths."""

    @property
    def words(self) -> str:
        """The script as it is started, without options."""
        target = f"-m {self.module}" if self.module else self.path
        start = "torchrun --nproc-per-node 2" if self.ranks else "python"
        return " ".join([start, target, *self.first])
