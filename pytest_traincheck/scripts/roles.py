"""What an option is for, from the words of its name and of its help."""

from __future__ import annotations

import re
from enum import Enum
from pathlib import PurePosixPath

from pytest_traincheck.scripts.model import Option


class Role(Enum):
    """What an option does to a run."""

    STEPS = "how many steps it takes"
    EPOCHS = "how many epochs"
    BATCH = "the size of a batch"
    SAMPLES = "how much of the data is used"
    WORKERS = "how many processes load data"
    SEED = "the seed"
    OUTPUT = "where it writes"
    OTHER = "something else"


_LAST = {
    Role.STEPS: {"step", "steps", "iter", "iters", "iteration", "iterations", "updates", "niter", "niters", "nsteps"},
    Role.EPOCHS: {"epoch", "epochs", "nepoch", "nepochs"},
    Role.BATCH: {"bs", "batchsize"},
    Role.SAMPLES: {"samples", "examples"},
    Role.WORKERS: {"workers", "worker", "nworkers", "cpu"},
    Role.SEED: {"seed", "randomseed", "manualseed"},
}
_COUNTING = {"max", "num", "n", "number", "of", "no", "total", "train", "training", "optim", "optimizer", "update"}
_SIDES = {"train", "training", "eval", "evaluation", "val", "valid", "validation", "test", "predict"}
_SEEDING = {"random", "manual", "rng", "global", "train", "training", "torch", "the", "base", "np"}
_WRITTEN = {
    *("out", "output", "outputs", "save", "log", "logs", "logging", "ckpt", "checkpoint", "checkpoints", "result"),
    *("results", "work", "run", "runs", "exp", "experiment", "tensorboard", "tb", "artifact", "artifacts"),
}
_READ_TOO = {"ckpt", "checkpoint", "checkpoints", "run", "runs", "exp", "experiment", "work"}
"""A directory of these is written; a path of these may be what is read."""
_DIRECTORY = {"dir", "directory", "folder", "root"}
_ONE_WORD = {"outdir", "outf", "logdir", "savedir", "workdir", "outputdir", "out", "output"}
_READ = {"resume", "load", "restore", "from", "pretrained", "init", "input", "every", "interval", "freq", "name"}


def words_of(name: str) -> list[str]:
    """The words in the last part of a name: `trainer.maxSteps` -> max, steps."""
    last = name.rpartition(".")[2]
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", last)]


def role_of(option: Option) -> Role:
    """What it is for, or `OTHER` where its name does not say so."""
    words = words_of(option.name)
    if not words or option.kind == "bool" or isinstance(option.default, bool):
        return Role.OTHER
    *others, last = words
    rest = set(others)
    if last in _LAST[Role.STEPS] and rest <= _COUNTING:
        # `--niter` of some programs counts epochs, as their help says.
        return Role.EPOCHS if re.search(r"\bepochs?\b", option.about, re.I) else Role.STEPS
    if last in _LAST[Role.EPOCHS] and rest <= _COUNTING:
        return Role.EPOCHS
    if last in _LAST[Role.BATCH] or ("batch" in rest and last == "size") or words == ["batch"]:
        return Role.BATCH
    if last in _LAST[Role.SAMPLES] and "max" in rest and rest & _SIDES:
        return Role.SAMPLES
    if last in _LAST[Role.WORKERS] and (last != "cpu" or rest == {"n"}):
        return Role.WORKERS
    if (last in _LAST[Role.SEED] and rest <= _SEEDING) or words == ["seed", "everything"]:
        return Role.SEED
    return Role.OUTPUT if is_output(words) else Role.OTHER


def is_output(words: list[str]) -> bool:
    """Whether the words of an option's name say that it is where a program writes."""
    if _READ.intersection(words):
        return False
    if len(words) == 1:
        return words[0] in _ONE_WORD
    written = _WRITTEN if words[-1] in _DIRECTORY else _WRITTEN - _READ_TOO if words[-1] == "path" else set()
    return bool(written.intersection(words[:-1]))


def is_file(option: Option) -> bool:
    """Whether its default is the name of a file, and not of a directory."""
    return isinstance(option.default, str) and bool(PurePosixPath(option.default).suffix)
