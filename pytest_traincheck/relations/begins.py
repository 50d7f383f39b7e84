"""Begins: what parameters begin with: values that others have or had, an input of a model, elements that differ or are
equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import numpy as np

from pytest_traincheck.looks import SKETCHES, Looks
from pytest_traincheck.relations import distribution
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis, listed, variable_names
from pytest_traincheck.relations.beginnings import ENOUGH, VARIED, Beginnings, First, parameter_rows, prefixes
from pytest_traincheck.relations.claims import Items
from pytest_traincheck.relations.context import rank_label, variable_context
from pytest_traincheck.relations.distribution import BeginsDistributed, BeginsWithEmptyRow, distributions
from pytest_traincheck.relations.loaded import history_of, pattern
from pytest_traincheck.relations.meaning import Deviation, Meaning, Place, Words
from pytest_traincheck.rules.claims import Claim
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Labels
from pytest_traincheck.trace.slots import argument
from pytest_traincheck.trace.variables import Variables

SUBJECT = "torch.nn.Parameter"
_MOST = 64
"""Names in a claim."""
_COPYING = Words(names=("deepcopy", "clone", "copy_", "load_state_dict", "manual_seed", "detach"), finds_variables=True)
"""How code makes copies."""


@dataclass(frozen=True)
class BeginsAs(Claim):
    """The parameters of one module, or one parameter, begin with the values of another one's."""

    begins: Literal["copy"] = field(default="copy", init=False)
    of: str
    copy: str


@dataclass(frozen=True)
class BeginsAsTrained(Claim):
    """The parameters of a model begin with values that another one had later than at its beginning: they were trained
    and saved, or kept, and come from there by whatever way.
    """

    begins: Literal["trained"] = field(default="trained", init=False)
    of: str
    model: str


@dataclass(frozen=True)
class BeginsAsShown(Claim):
    """A parameter begins with what a model was given or returned before: `slot` is as in a sketch."""

    begins: Literal["shown"] = field(default="shown", init=False)
    parameter: str
    model: str
    slot: str


@dataclass(frozen=True)
class BeginsApart(Claim):
    """No two parameters that are trained begin with the same values."""

    begins: Literal["apart"] = field(default="apart", init=False)


@dataclass(frozen=True)
class BeginsVaried(Claim):
    """Parameters of a model with these names, in which `*` stands for a number, begin with elements that differ."""

    begins: Literal["varied"] = field(default="varied", init=False)
    root: str
    names: Annotated[tuple[str, ...], Items(1, _MOST)]


AnyClaim = (
    BeginsAs | BeginsAsTrained | BeginsAsShown | BeginsApart | BeginsVaried | BeginsDistributed | BeginsWithEmptyRow
)


class Begins:
    """Before training a module begins as a copy of another one, or no parameter begins as another one does; a
    parameter begins with what a model was shown; parameters begin with elements that differ.

    Nothing is said of how large the values are: that is for `Band`. These are facts without a band, the same in every
    seed.
    """

    name = "Begins"
    looks: ClassVar[Looks] = frozenset({SKETCHES})
    claims: ClassVar[tuple[type[Claim], ...]] = (
        BeginsAs,
        BeginsAsTrained,
        BeginsAsShown,
        BeginsApart,
        BeginsVaried,
        BeginsDistributed,
        BeginsWithEmptyRow,
    )

    def layer(self, claim: AnyClaim) -> int:
        return 3  # a state that is not loaded, or a call that never comes, says more

    def meaning(self, rule: Invariant[AnyClaim]) -> Meaning:
        # That elements are equal is told last: whose values they are not says more.
        return Meaning(
            Place.INITIAL, order=int(isinstance(rule.claim, BeginsVaried)), at_beginning=True, words=_COPYING
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            drawn = distributions(_within_roots(process))
            for claim in (
                *_copies(process),
                *_trained_elsewhere(process),
                *_shown(process),
                *_varied(process),
                *drawn,
            ):
                yield Hypothesis(self.name, SUBJECT, claim, scope=Scope.PINNED)
            if len(_trained(process)) > 1:
                yield Hypothesis(self.name, SUBJECT, BeginsApart(), scope=Scope.PINNED)

    def examples(self, claim: AnyClaim, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: AnyClaim, subject: str, when: str) -> str:
        if isinstance(claim, BeginsAs):
            return f"`{claim.copy}` begins with the values of `{claim.of}`{when}."
        if isinstance(claim, BeginsAsTrained):
            return f"`{claim.model}` begins with values that `{claim.of}` had after training{when}."
        if isinstance(claim, BeginsAsShown):
            return f"`{claim.parameter}` begins with {_place(claim)}{when}."
        if isinstance(claim, BeginsApart):
            return f"No two trained parameters begin with the same values{when}."
        if isinstance(claim, (BeginsDistributed, BeginsWithEmptyRow)):
            return f"{distribution.said(claim)}{when}."
        return f"The elements of {listed(claim.names)} of `{claim.root}` are not all equal at the beginning{when}."

    def finding(self, invariant: Invariant[AnyClaim], run: Run, examples: Examples, broken: Any) -> Finding:
        claim = invariant.claim
        names = listed(variable_names(run, examples, broken))
        seen = examples.observed[int(broken[0])] if examples.observed is not None else "?"
        if isinstance(claim, BeginsAs):
            return Finding(
                f"In the golden run `{claim.copy}` began with the values of `{claim.of}`; in the candidate it begins "
                f"with values of its own ({names}): it is no copy.",
                f"a copy of `{claim.of}`",
                f"other values: {names}",
            )
        if isinstance(claim, BeginsAsTrained):
            return Finding(
                f"In the golden run `{claim.model}` began with values that `{claim.of}` had after training; in the "
                f"candidate it begins with others ({names}): they are drawn by themselves, or another state is loaded.",
                f"values that `{claim.of}` had",
                f"other values: {names}",
            )
        if isinstance(claim, BeginsAsShown):
            return Finding(
                f"In the golden run `{claim.parameter}` began with {_place(claim)}; in the candidate it begins with "
                "other values.",
                f"begins with {_place(claim)}",
                "begins with other values",
            )
        if isinstance(claim, BeginsApart):
            return Finding(
                f"In the golden run no two trained parameters began with the same values; in the candidate {names} "
                f"{seen}: copies are trained, or were drawn from the same seed.",
                "values of their own",
                seen,
                deviation=Deviation.EXTRA,
            )
        if isinstance(claim, (BeginsDistributed, BeginsWithEmptyRow)):
            return distribution.finding(claim, names, seen)
        return Finding(
            f"In the golden run the elements of {names} differed at the beginning; in the candidate {seen}: a "
            "constant was written over what was drawn, or nothing was drawn.",
            "elements that differ",
            seen,
        )


def _place(claim: BeginsAsShown) -> str:
    head, _, path = claim.slot.partition(".")
    if head == "in":
        return f"what `{claim.model}` was given as {argument(path)} before"
    return f"what `{claim.model}` returned before"


def _copies(process: Process) -> Iterator[BeginsAs]:
    begun = Beginnings.of(process)
    names = process.names.variables
    pairs = {prefixes(names[mine.variable], names[other.variable]): None for mine, other in begun.twins()}
    for copy, of in pairs:
        if copy.startswith(f"{of}."):
            continue  # the same parameters, in a module that was put around them
        mine, others = begun.below(copy), begun.below(of)
        if mine and all(key in others and begun.equal(item, others[key]) for key, item in mine.items()):
            yield BeginsAs(of, copy)


def _trained_elsewhere(process: Process) -> Iterator[BeginsAsTrained]:
    """Models all of whose parameters have values that another one had, which are neither those of its beginning nor
    what it has by then.
    """
    copies = {(claim.of, claim.copy) for claim in _copies(process)}
    by_root: dict[str, list[First]] = {}
    for root, item in _telling(process):
        by_root.setdefault(root, []).append(item)
    for root, items in by_root.items():
        sources = [_had(process, item) for item in items]
        for source in sorted(set.intersection(*map(set, sources)) - {root}):
            if (source, root) not in copies and all(had[source] for had in sources):
                yield BeginsAsTrained(source, root)


def _telling(process: Process) -> Iterator[tuple[str, First]]:
    """Root and first look of the parameters that are no constants, and have enough elements to be told apart."""
    roots = Variables.of(process).root
    for number, item in Beginnings.of(process).first.items():
        root = process.names.roots[int(roots[number])]
        if root and item.spread > VARIED and item.elements >= ENOUGH and item.digest:
            yield root, item


def _had(process: Process, item: First) -> Mapping[str, bool]:
    """The models that had the content of a parameter before it was first looked at; whether they had it later than at
    their beginning, or have never had another one.
    """
    first, variables = Beginnings.of(process).first, Variables.of(process)
    found: dict[str, bool] = {}
    for root, row, variable in history_of(process).of(item.digest):
        name = process.names.roots[root]
        if name and row < item.row and variable != item.variable:
            known = first.get(variable)
            last = int(variables.last(np.array([variable]), np.array([item.seq]))[0])
            stays = last >= 0 and int(process.events["digest"][last]) == item.digest
            found[name] = found.get(name, False) or stays or (known is not None and known.digest != item.digest)
    return found


def _shown(process: Process) -> Iterator[BeginsAsShown]:
    begun = Beginnings.of(process)
    for number, item in begun.first.items():
        if item.spread > VARIED and item.elements >= ENOUGH:
            for model, slot in begun.given(number)[:1]:
                yield BeginsAsShown(process.names.variables[number], model, slot)


def _varied(process: Process) -> Iterator[BeginsVaried]:
    by_root: dict[str, dict[str, bool]] = {}
    for root, name, item in _within_roots(process):
        known = by_root.setdefault(root, {})
        known[name] = known.get(name, True) and item.spread > VARIED
    for root, found in by_root.items():
        names = tuple(sorted(name for name, varied in found.items() if varied))
        if 0 < len(names) <= _MOST:
            yield BeginsVaried(root, names)


def _within_roots(process: Process) -> Iterator[tuple[str, str, First]]:
    """Root, pattern of the name and first look of the parameters of more than one element."""
    variables = Variables.of(process)
    for number, item in Beginnings.of(process).first.items():
        root = process.names.roots[int(variables.root[number])]
        if root and item.elements > 1:
            yield root, pattern(str(variables.symbols[number].get("name", ""))), item


def _trained(process: Process) -> Sequence[First]:
    """Parameters that an optimizer holds, that are there before the first training step, and of which there are
    enough elements to be told apart: later on a resumed model begins as the one before it was.
    """
    held = Variables.of(process).held
    return [
        item
        for item in Beginnings.of(process).first.values()
        if held[item.variable] and item.spread > VARIED and item.elements >= ENOUGH and not process.window[item.row]
    ]


def _examples(process: Process, position: int, claim: AnyClaim) -> Examples:
    begun = Beginnings.of(process)
    if isinstance(claim, BeginsAs):
        mine, others = begun.below(claim.copy), begun.below(claim.of)
        both = [key for key in mine if key in others]
        return _table(process, position, {mine[key]: begun.equal(mine[key], others[key]) for key in both})
    if isinstance(claim, BeginsAsTrained):
        if claim.of not in process.names.roots:
            return EMPTY  # no model is recognised as golden's source
        telling = (item for root, item in _telling(process) if root == claim.model)
        return _table(process, position, {item: _had(process, item).get(claim.of, False) for item in telling})
    if isinstance(claim, BeginsAsShown):
        return _table(process, position, _as_shown(process, claim))
    if isinstance(claim, BeginsApart):
        names, held = process.names.variables, Variables.of(process).held
        twins = {mine: names[other.variable] for mine, other in begun.twins() if held[other.variable]}
        trained = _trained(process)
        texts = [f"begins with the values of `{twins[item]}`" if item in twins else "" for item in trained]
        return _table(process, position, {item: item not in twins for item in trained}, texts)
    if isinstance(claim, (BeginsDistributed, BeginsWithEmptyRow)):
        found = distribution.places(claim, _within_roots(process))
        return _table(process, position, found, [distribution.observed(claim, item) for item in found])
    wanted = [item for root, name, item in _within_roots(process) if root == claim.root and name in claim.names]
    texts = ["they are all zero" if item.zero else "they are all equal" for item in wanted]
    return _table(process, position, {item: not (item.zero or item.equal) for item in wanted}, texts)


def _as_shown(process: Process, claim: BeginsAsShown) -> Mapping[First, bool]:
    """Whether the parameter has the content; nothing where the model was not shown anything of its size before."""
    begun = Beginnings.of(process)
    names = process.names.variables
    found = {}
    for number, item in begun.first.items():
        at, content = begun.sketched.get(number, (0, None))
        if names[number] != claim.parameter or content is None:
            continue
        shown = [
            other
            for other, places in begun.shown.items()
            for time, model, slot in places
            if (model, slot) == (claim.model, claim.slot) and time < at and other[0] == content[0]
        ]
        if shown:
            found[item] = content in shown
    return found


def _table(
    process: Process, position: int, holds: Mapping[First, bool], texts: Sequence[str] | None = None
) -> Examples:
    if not holds:
        return EMPTY
    rows, variables = parameter_rows(list(holds))
    context = variable_context(process, variables)
    return Examples(
        np.array(list(holds.values()), dtype=bool),
        np.full(len(rows), position),
        rows,
        variables,
        {"rank": rank_label(process, len(rows)), "root": context["root"], "child": context["child"]},
        Labels.of(np.arange(len(rows)), list(texts)) if texts is not None else None,
    )
