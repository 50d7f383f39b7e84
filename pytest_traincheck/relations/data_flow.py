"""DataFlow: what flows into a call: which function shaped the input of a loss, which tokens are its targets, which
indices and masks are always the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

import numpy as np

from pytest_traincheck.looks import LOSSES, MASKS_AND_INDICES, Looks
from pytest_traincheck.relations import along, loss_targets
from pytest_traincheck.relations.along import Along
from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.context import call_context
from pytest_traincheck.relations.loss_shapes import shape_examples, shapes_of_losses
from pytest_traincheck.relations.loss_targets import OneSide
from pytest_traincheck.relations.meaning import Change, Excuse, Meaning, Place
from pytest_traincheck.relations.vocabulary import F
from pytest_traincheck.rules.claims import Claim, Written
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

INPUT: Final = "loss.input"
SHIFT: Final = "loss.shift"

LOGITS: Final = "logits"
PROBABILITIES, LOG_PROBABILITIES = "probabilities", "log-probabilities"

Given = Literal["logits", "raw", "softmax", "sigmoid", "log_softmax", "logsigmoid", "tanh", "relu"]
"""Numbers as they are, known to be logits or not; or the output of a function."""

# The same mathematics in one call or in two.
_MEANING: Mapping[tuple[str, str], Given] = {
    ("nll_loss", "log_softmax"): LOGITS,
    ("binary_cross_entropy", "sigmoid"): LOGITS,
    ("kl_div", "log_softmax"): LOGITS,
}
_SHAPED: Mapping[Given, str] = {
    "softmax": f"{PROBABILITIES} (the output of `softmax`)",
    "sigmoid": f"{PROBABILITIES} (the output of `sigmoid`)",
    "log_softmax": f"{LOG_PROBABILITIES} (the output of `log_softmax`)",
    "logsigmoid": f"{LOG_PROBABILITIES} (the output of `logsigmoid`)",
    "tanh": "the output of `tanh`",
    "relu": "the output of `relu`",
}
WORDS: Mapping[Given, str] = {LOGITS: LOGITS, "raw": "raw numbers", **_SHAPED}
_SHAPING: Mapping[str, Given] = {name: name for name in _SHAPED}
_RAW = ("cross_entropy", "binary_cross_entropy_with_logits")
PatternOf = Literal["pattern.input", "pattern.attn_mask", "pattern.mask"]
ContentOf = Literal["content.input", "content.attn_mask", "content.mask"]
PATTERNS: Mapping[PatternOf, str] = {
    "pattern.input": "indices",
    "pattern.attn_mask": "attention mask",
    "pattern.mask": "mask",
}
CONTENTS: Mapping[ContentOf, str] = {
    "content.input": "indices",
    "content.attn_mask": "attention mask",
    "content.mask": "mask",
}


@dataclass(frozen=True)
class Digest(Written):
    """A hash of contents, 64 bits."""

    number: int

    words = "a hash of 16 hexadecimal digits"

    def __str__(self) -> str:
        return f"{self.number:016x}"

    @classmethod
    def read(cls, text: str) -> Digest:
        if not re.fullmatch(r"[0-9a-f]{16}", text):
            raise ValueError(f"{text!r} is no hash")
        return cls(int(text, 16))


@dataclass(frozen=True)
class LossInput(Claim):
    """What loss functions are given."""

    of: Literal["loss.input"] = field(default=INPUT, init=False)
    value: Given


@dataclass(frozen=True)
class TargetShift(Claim):
    """The targets of a loss are the model's input so many tokens on."""

    of: Literal["loss.shift"] = field(default=SHIFT, init=False)
    value: int


@dataclass(frozen=True)
class Pattern(Claim):
    """The indices or the mask of a module follow a pattern: where they begin to count, or what is hidden."""

    of: PatternOf
    module: str
    value: int


@dataclass(frozen=True)
class Content(Claim):
    """The indices or the mask of a module have one content, as a hash."""

    of: ContentOf
    module: str
    content: Digest


@dataclass(frozen=True)
class AsTargets(Claim):
    """A loss function is given its input in the shape of the targets."""

    of: Literal["loss.shape"] = field(default="loss.shape", init=False)
    api: str


Claims = LossInput | TargetShift | Pattern | Content | AsTargets | OneSide | Along


class DataFlow:
    """A loss gets what it got in golden: logits or probabilities; targets so many tokens ahead of the model's input; an
    embedding or a mask gets the same indices or flags in every call.
    """

    name = "DataFlow"
    looks: ClassVar[Looks] = frozenset({LOSSES, MASKS_AND_INDICES})
    claims: ClassVar[tuple[type[Claim], ...]] = (
        LossInput,
        TargetShift,
        Pattern,
        Content,
        AsTargets,
        OneSide,
        Along,
    )

    def layer(self, claim: Claims) -> int:
        return 1

    def meaning(self, rule: Invariant[Claims]) -> Meaning:
        if isinstance(rule.claim, Along):
            return along.meaning(rule.claim)
        if isinstance(rule.claim, OneSide):
            return loss_targets.meaning()
        return Meaning(
            Place.LOSS,
            brings=frozenset({Change.LOSS_INPUT}),
            comes_with=frozenset({Change.BATCHES}),
            excuse=Excuse.OWN_RESULT,
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            given = set(_inputs(process)[1].values)
            for value in sorted(WORDS.keys() & given):
                # Losses of two kinds are given two things, each of which may be a rule.
                yield Hypothesis(
                    self.name, "torch.nn.functional", LossInput(value), scope=Scope.PINNED, family=f"{INPUT} {value}"
                )
            for (api, stage), sizes in along.sizes(process).items():
                if len(sizes) <= along.MOST and (api, stage) not in along.up_to_the_data(process):
                    yield Hypothesis(self.name, api, Along(api, stage, tuple(sorted(sizes))), scope=Scope.PINNED)
            for api in shapes_of_losses(process):
                yield Hypothesis(self.name, api, AsTargets(api), scope=Scope.PINNED)
            for api in loss_targets.compared(process):
                yield Hypothesis(self.name, api, OneSide(api), scope=Scope.PINNED)
            rows = process.measures(SHIFT)
            for shift in sorted(set(process.events["value"][rows].tolist())):
                yield Hypothesis(
                    self.name, "torch.nn.functional", TargetShift(int(shift)), scope=Scope.PINNED, family=SHIFT
                )
            for pattern in PATTERNS:
                for place, mine in _by_module(process, pattern).items():
                    for number in sorted(set(process.events["value"][mine].tolist())):
                        if number >= 0:
                            claim = Pattern(pattern, place, int(number))
                            yield Hypothesis(self.name, place, claim, scope=Scope.PINNED, family=f"{pattern} {place}")
            for content in CONTENTS:
                for place, mine in _by_module(process, content).items():
                    digests = set(process.events["digest"][mine].tolist())
                    if len(digests) == 1:
                        same = Content(content, place, Digest(digests.pop()))
                        yield Hypothesis(self.name, place, same, scope=Scope.PINNED)

    def examples(self, claim: Claims, run: Run) -> Examples:
        return Examples.concatenate([_examples(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: Claims, subject: str, when: str) -> str:
        if isinstance(claim, LossInput):
            return f"Loss functions are given {WORDS[claim.value]}{when}."
        if isinstance(claim, TargetShift):
            return f"The targets of the loss are the model's input {_ahead(claim.value)}{when}."
        if isinstance(claim, Along):
            return f"`{subject}` {along.said(claim)}{when}."
        if isinstance(claim, AsTargets):
            return f"`{subject}` is given its input in the shape of the targets{when}."
        if isinstance(claim, OneSide):
            return f"At most one side of what `{subject}` compares has gradients, in training{when}."
        if isinstance(claim, Pattern):
            return f"The {PATTERNS[claim.of]} of `{claim.module}` {_pattern(claim)}{when}."
        return f"The {CONTENTS[claim.of]} of `{claim.module}` {_are(claim)} the same in every call{when}."

    def finding(
        self,
        invariant: Invariant[Claims],
        run: Run,
        examples: Examples,
        broken: Ints,
    ) -> Finding:
        claim = invariant.claim
        first = int(broken[0])
        seen = examples.observed[first] if examples.observed is not None else "?"
        if isinstance(claim, LossInput):
            process = run.processes[int(examples.process[first])]
            api = process.api[int(process.parent_row[examples.row[first]])]
            was, now = _expected(claim.value, api), _given_instead(claim.value, seen, api)
            return Finding(
                f"In the golden run loss functions were given {was}; in the candidate `{api}` is given {now}.",
                f"given {was}",
                f"given {now}",
                value=_words(seen),
                common_cause=claim.of,
            )
        if isinstance(claim, TargetShift):
            return Finding(
                f"In the golden run the targets of the loss were the model's input {_ahead(claim.value)}; in the "
                f"candidate they are the input {seen}: labels are shifted differently.",
                f"targets {_ahead(claim.value)}",
                f"targets {seen}",
                value=seen,
                common_cause=claim.of,
            )
        if isinstance(claim, Along):
            return along.finding(claim, seen)
        if isinstance(claim, AsTargets):
            return _other_shape(claim, seen)
        if isinstance(claim, OneSide):
            return loss_targets.finding(claim)
        if isinstance(claim, Pattern):
            was = _pattern(claim)
            now = "they do not" if claim.of == "pattern.input" else _otherwise(claim)
            return Finding(
                f"In the golden run the {PATTERNS[claim.of]} of `{claim.module}` {was}; in the candidate {now}.",
                was,
                now,
                common_cause=claim.of,
            )
        what = CONTENTS[claim.of]
        return Finding(
            f"In the golden run the {what} of `{claim.module}` {'were' if what == 'indices' else 'was'} the same in "
            f"every call; in the candidate {'they are' if what == 'indices' else 'it is'} different.",
            f"the same {what} in every call",
            f"different {what}" if what == "indices" else f"a different {what}",
            # Layers that are given the same mask.
            common_cause=claim.of,
        )


def _other_shape(claim: AsTargets, seen: str) -> Finding:
    return Finding(
        f"In the golden run `{claim.api}` was given its input in the shape of the targets; in the candidate "
        f"it is {seen}: one is repeated along the other, so that numbers are compared that do not belong "
        "together.",
        "input in the shape of the targets",
        f"input {seen}",
        value=seen,
        common_cause=claim.of,
    )


def _shaping_of(api: str) -> str:
    """The function that makes of logits what a loss takes; empty for one that takes logits, or anything."""
    return next((shaping for (loss, shaping) in _MEANING if api == F + loss), "")


def _expected(value: Given, api: str) -> str:
    """What golden gave to losses, as it is where one of the candidate's takes the output of a function."""
    shaping = _shaping_of(api)
    if value != LOGITS or not shaping:
        return WORDS[value]
    return f"{WORDS[_SHAPING[shaping]]}, or logits where the loss makes those itself"


def _given_instead(value: Given, seen: str, api: str) -> str:
    shaping = _shaping_of(api)
    if value == LOGITS and shaping and seen == "raw":
        return f"numbers that have not gone through `{shaping}`, as logits are"
    return _words(seen)


def _words(given: str) -> str:
    return next((words for code, words in WORDS.items() if code == given), given)


def _pattern(claim: Pattern) -> str:
    if claim.of == "pattern.input":
        return f"count up from {claim.value} in every row"
    return "hides all later positions" if claim.value else "lets some later positions be seen"


def _otherwise(claim: Pattern) -> str:
    return "it does not" if claim.value else "it hides all of them"


def _are(claim: Content) -> str:
    return "are" if CONTENTS[claim.of] == "indices" else "is"


def _ahead(shift: int) -> str:
    if shift == 0:
        return "itself"
    tokens = f"{abs(shift)} token{'s' if abs(shift) > 1 else ''}"
    return f"{tokens} {'ahead' if shift > 0 else 'behind'}"


def _inputs(process: Process) -> tuple[Ints, Labels]:
    """Rows of what went into losses, and what it was, as a `Given`."""

    def compute() -> tuple[Ints, Labels]:
        rows: list[int] = []
        given: list[Given] = []
        for symbol in process.raw.symbols["measure"]:
            name = str(symbol.get("name", ""))
            if not name.startswith(f"{INPUT}="):
                continue
            shaped = name.partition("=")[2]
            for row in process.measures(name).tolist():
                api = process.api[int(process.parent_row[row])].removeprefix(F)
                raw: Given = LOGITS if api in _RAW else "raw"
                rows.append(row)
                given.append(_MEANING.get((api, shaped)) or _SHAPING.get(shaped, raw))
        order = np.argsort(np.array(rows, dtype=np.int64), kind="stable")
        return np.array(rows, dtype=np.int64)[order], Labels.of(order, given)

    return process.memo("loss inputs", compute)


def _examples(process: Process, position: int, claim: Claims) -> Examples:
    if isinstance(claim, LossInput):
        return _input_examples(process, position, claim)
    if isinstance(claim, TargetShift):
        return _shift_examples(process, position, claim)
    if isinstance(claim, Along):
        return along.examples(process, position, claim)
    if isinstance(claim, AsTargets):
        return shape_examples(process, position, claim.api)
    if isinstance(claim, OneSide):
        return loss_targets.examples(process, position, claim)
    if isinstance(claim, Pattern):
        return _pattern_examples(process, position, claim)
    return _content_examples(process, position, claim)


def _input_examples(process: Process, position: int, claim: LossInput) -> Examples:
    rows, seen = _inputs(process)
    if not len(rows):
        return EMPTY
    parents = process.parent_row[rows]
    context = call_context(process, parents)
    api = process.api.take(parents)
    return Examples(
        seen.isin([claim.value]),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"api": api, **{name: context[name] for name in ("rank", "root", "module")}},
        seen,
    )


def _shift_examples(process: Process, position: int, claim: TargetShift) -> Examples:
    rows = process.measures(SHIFT)
    if not len(rows):
        return EMPTY
    shifts = process.events["value"][rows].astype(np.int64)
    return Examples(
        np.asarray(shifts == claim.value),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"first_step": Labels.flags(process.window[rows] == 0)},
        Labels.of(np.arange(len(rows)), [_ahead(int(shift)) for shift in shifts]),
    )


def _by_module(process: Process, name: str) -> Mapping[str, Ints]:
    def compute() -> Mapping[str, Ints]:
        rows = process.measures(name)
        found = Labels.of(process.events["mod"][rows], process.names.modules).groups(np.arange(len(rows)))
        return {name: rows[positions] for name, positions in found.items() if name}

    return process.memo(("contents", name), compute)


def _pattern_examples(process: Process, position: int, claim: Pattern) -> Examples:
    rows = _by_module(process, claim.of).get(claim.module)
    if rows is None or not len(rows):
        return EMPTY
    return Examples(
        np.asarray(process.events["value"][rows] == claim.value),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"stage": process.stage_labels.take(rows)},
    )


def _content_examples(process: Process, position: int, claim: Content) -> Examples:
    rows = _by_module(process, claim.of).get(claim.module)
    if rows is None or not len(rows):
        return EMPTY
    wanted = np.uint64(claim.content.number)
    return Examples(
        np.asarray(process.events["digest"][rows] == wanted),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"stage": process.stage_labels.take(rows), "first_step": Labels.flags(process.window[rows] == 0)},
    )
