"""Arguments of models that have another name in the golden: `x` there, `points` here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pytest_traincheck.alignment.description import models_as_made
from pytest_traincheck.trace.labels import pairs_of
from pytest_traincheck.trace.process import Process
from pytest_traincheck.trace.run import Run


def describe_arguments(run: Run) -> dict[str, list[str]]:
    """Model -> the names of its arguments, in order, as far as all of its calls from outside have the same; sorted by
    model. What holds no parameters, as a loss, is none.
    """
    found: dict[str, set[tuple[str, ...]]] = {}
    models = models_as_made(run)
    for process in run.processes:
        for owner, names in _called(process):
            if owner.partition(".")[0] in models:
                found.setdefault(owner, set()).add(names)
    return {owner: list(next(iter(names))) for owner, names in sorted(found.items()) if len(names) == 1}


def find_renamed_arguments(
    golden: Mapping[str, Sequence[str]], candidate: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], str]:
    """Model and the candidate's name -> golden's name, where they differ.

    Arguments are taken for the same by their place, where there are as many, and where neither name is that of another
    argument on the other side.
    """
    found: dict[tuple[str, str], str] = {}
    for owner, mine in candidate.items():
        theirs = golden.get(owner, ())
        pairs = [(own, known) for own, known in zip(mine, theirs, strict=False) if own != known]
        if len(mine) == len(theirs) and all(own not in theirs and known not in mine for own, known in pairs):
            found |= {(owner, own): known for own, known in pairs}
    return found


def _called(process: Process) -> list[tuple[str, tuple[str, ...]]]:
    rows = process.entry_rows
    modules, given, _ = pairs_of(process.events["mod"][rows], process.events["args"][rows])
    found = []
    for module, arguments in zip(modules.tolist(), given.tolist(), strict=True):
        owner = process.names.modules[module]
        if arguments:
            values = process.raw.symbols["args"][arguments].get("values") or {}
            found.append((owner, tuple(map(str, values))))
    return found
