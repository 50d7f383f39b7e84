"""DataFlow: what flows into a call: which function shaped the input of a loss, which tokens are its targets, which
indices and masks are always the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples, Finding, Hypothesis
from pytest_traincheck.relations.claims import TEXT, WHOLE, Form, one_of
from pytest_traincheck.relations.context import call_context
from pytest_traincheck.relations.meaning import Change, Excuse, Meaning, Place
from pytest_traincheck.relations.vocabulary import F
from pytest_traincheck.rules.model import Invariant, Scope
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.labels import Ints, Labels

INPUT, SHIFT = "loss.input", "loss.shift"

LOGITS, PROBABILITIES, LOG_PROBABILITIES = "logits", "probabilities", "log-probabilities"

# The same mathematics in one call or in two.
_MEANING = {
    ("nll_loss", "log_softmax"): LOGITS,
    ("binary_cross_entropy", "sigmoid"): LOGITS,
    ("kl_div", "log_softmax"): LOGITS,
}
_SHAPED = {
    "softmax": f"{PROBABILITIES} (the output of `softmax`)",
    "sigmoid": f"{PROBABILITIES} (the output of `sigmoid`)",
    "log_softmax": f"{LOG_PROBABILITIES} (the output of `log_softmax`)",
    "logsigmoid": f"{LOG_PROBABILITIES} (the output of `logsigmoid`)",
    "tanh": "the output of `tanh`",
    "relu": "the output of `relu`",
}
_RAW = ("cross_entropy", "binary_cross_entropy_with_logits")
PATTERNS = {"pattern.input": "indices", "pattern.attn_mask": "attention mask", "pattern.mask": "mask"}
CONTENTS = {"content.input": "indices", "content.attn_mask": "attention mask", "content.mask": "mask"}


class DataFlow:
    """A loss gets what it got in golden: logits or probabilities; targets so many tokens ahead of the model's input; an
    embedding or a mask gets the same indices or flags in every call.
    """

    name = "DataFlow"
    forms: ClassVar[tuple[Form, ...]] = (
        {"of": one_of(INPUT), "value": TEXT},
        {"of": one_of(SHIFT), "value": WHOLE},
        {"of": one_of(*PATTERNS), "module": TEXT, "value": WHOLE},
        {"of": one_of(*CONTENTS), "module": TEXT, "content": TEXT},
    )

    def layer(self, claim: Mapping[str, Any]) -> int:
        return 1

    def meaning(self, rule: Invariant) -> Meaning:
        return Meaning(
            Place.LOSS,
            brings=frozenset({Change.LOSS_INPUT}),
            comes_with=frozenset({Change.BATCHES}),
            excuse=Excuse.OWN_RESULT,
        )

    def hypotheses(self, run: Run) -> Iterable[Hypothesis]:
        for process in run.processes:
            for value in sorted(set(_inputs(process)[1].values)):
                # Losses of two kinds are given two things, each of which may be a rule.
                claim: dict[str, Any] = {"of": INPUT, "value": value}
                yield Hypothesis(self.name, "torch.nn.functional", claim, scope=Scope.PINNED, family=f"{INPUT} {value}")
            rows = process.measures(SHIFT)
            for shift in sorted(set(process.events["value"][rows].tolist())):
                yield Hypothesis(
                    self.name, "torch.nn.functional", {"of": SHIFT, "value": int(shift)}, scope=Scope.PINNED,
                    family=SHIFT,
                )  # fmt: skip
            for name in PATTERNS:
                for place, mine in _by_module(process, name).items():
                    for value in sorted(set(process.events["value"][mine].tolist())):
                        if value >= 0:
                            claim = {"of": name, "module": place, "value": int(value)}
                            yield Hypothesis(self.name, place, claim, scope=Scope.PINNED, family=f"{name} {place}")
            for name in CONTENTS:
                for place, mine in _by_module(process, name).items():
                    digests = set(process.events["digest"][mine].tolist())
                    if len(digests) == 1:
                        claim = {"of": name, "module": place, "content": f"{digests.pop():016x}"}
                        yield Hypothesis(self.name, place, claim, scope=Scope.PINNED)

    def examples(self, claim: Mapping[str, Any], run: Run) -> Examples:
        make = {INPUT: _input_examples, SHIFT: _shift_examples}.get(claim["of"], _content_examples)
        make = _pattern_examples if claim["of"] in PATTERNS else make
        return Examples.concatenate([make(process, number, claim) for number, process in enumerate(run.processes)])

    def sentence(self, claim: Mapping[str, Any], subject: str, when: str) -> str:
        if claim["of"] == INPUT:
            return f"Loss functions are given {claim['value']}{when}."
        if claim["of"] == SHIFT:
            return f"The targets of the loss are the model's input {_ahead(claim['value'])}{when}."
        if claim["of"] in PATTERNS:
            return f"The {PATTERNS[claim['of']]} of `{claim['module']}` {_pattern(claim)}{when}."
        return f"The {CONTENTS[claim['of']]} of `{claim['module']}` {_are(claim)} the same in every call{when}."

    def finding(self, invariant: Invariant, run: Run, examples: Examples, broken: Ints) -> Finding:
        claim = invariant.claim
        first = int(broken[0])
        seen = examples.observed[first] if examples.observed is not None else "?"
        if claim["of"] == INPUT:
            process = run.processes[int(examples.process[first])]
            api = process.api[int(process.parent_row[examples.row[first]])]
            return Finding(
                f"In the golden run loss functions were given {claim['value']}; in the candidate `{api}` is given "
                f"{seen}.",
                f"given {claim['value']}",
                f"given {seen}",
                value=seen,
                common_cause=claim["of"],
            )
        if claim["of"] == SHIFT:
            return Finding(
                f"In the golden run the targets of the loss were the model's input {_ahead(claim['value'])}; in the "
                f"candidate they are the input {seen}: labels are shifted differently.",
                f"targets {_ahead(claim['value'])}",
                f"targets {seen}",
                value=seen,
                common_cause=claim["of"],
            )
        if claim["of"] in PATTERNS:
            was = _pattern(claim)
            now = "they do not" if claim["of"] == "pattern.input" else _otherwise(claim)
            return Finding(
                f"In the golden run the {PATTERNS[claim['of']]} of `{claim['module']}` {was}; in the candidate {now}.",
                was,
                now,
                common_cause=claim["of"],
            )
        what = CONTENTS[claim["of"]]
        return Finding(
            f"In the golden run the {what} of `{claim['module']}` {'were' if what == 'indices' else 'was'} the same in "
            f"every call; in the candidate {'they are' if what == 'indices' else 'it is'} different.",
            f"the same {what} in every call",
            f"different {what}" if what == "indices" else f"a different {what}",
            # Layers that are given the same mask.
            common_cause=claim["of"],
        )


def _pattern(claim: Mapping[str, Any]) -> str:
    if claim["of"] == "pattern.input":
        return f"count up from {claim['value']} in every row"
    return "hides all later positions" if claim["value"] else "lets some later positions be seen"


def _otherwise(claim: Mapping[str, Any]) -> str:
    return "it does not" if claim["value"] else "it hides all of them"


def _are(claim: Mapping[str, Any]) -> str:
    return "are" if CONTENTS[claim["of"]] == "indices" else "is"


def _ahead(shift: int) -> str:
    if shift == 0:
        return "itself"
    tokens = f"{abs(shift)} token{'s' if abs(shift) > 1 else ''}"
    return f"{tokens} {'ahead' if shift > 0 else 'behind'}"


def _inputs(process: Process) -> tuple[Ints, Labels]:
    """Rows of what went into losses, and in words what it was."""

    def compute() -> tuple[Ints, Labels]:
        rows: list[int] = []
        texts: list[str] = []
        for symbol in process.raw.symbols["measure"]:
            name = str(symbol.get("name", ""))
            if not name.startswith(f"{INPUT}="):
                continue
            shaped = name.partition("=")[2]
            for row in process.measures(name).tolist():
                api = process.api[int(process.parent_row[row])].removeprefix(F)
                text = _MEANING.get((api, shaped)) or _SHAPED.get(shaped, LOGITS if api in _RAW else "raw numbers")
                rows.append(row)
                texts.append(text)
        order = np.argsort(np.array(rows, dtype=np.int64), kind="stable")
        return np.array(rows, dtype=np.int64)[order], Labels.of(order, texts)

    return process.memo("loss inputs", compute)


def _input_examples(process: Process, position: int, claim: Mapping[str, Any]) -> Examples:
    rows, seen = _inputs(process)
    if not len(rows):
        return EMPTY
    parents = process.parent_row[rows]
    context = call_context(process, parents)
    api = process.api.take(parents)
    return Examples(
        seen.isin([claim["value"]]),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"api": api, **{name: context[name] for name in ("rank", "root", "module")}},
        seen,
    )


def _shift_examples(process: Process, position: int, claim: Mapping[str, Any]) -> Examples:
    rows = process.measures(SHIFT)
    if not len(rows):
        return EMPTY
    shifts = process.events["value"][rows].astype(np.int64)
    return Examples(
        np.asarray(shifts == claim["value"]),
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


def _pattern_examples(process: Process, position: int, claim: Mapping[str, Any]) -> Examples:
    rows = _by_module(process, claim["of"]).get(claim["module"])
    if rows is None or not len(rows):
        return EMPTY
    return Examples(
        np.asarray(process.events["value"][rows] == claim["value"]),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"stage": process.stage_labels.take(rows)},
    )


def _content_examples(process: Process, position: int, claim: Mapping[str, Any]) -> Examples:
    rows = _by_module(process, claim["of"]).get(claim["module"])
    if rows is None or not len(rows):
        return EMPTY
    wanted = np.uint64(int(claim["content"], 16))
    return Examples(
        np.asarray(process.events["digest"][rows] == wanted),
        np.full(len(rows), position),
        rows,
        np.zeros(len(rows), dtype=np.int64),
        {"stage": process.stage_labels.take(rows), "first_step": Labels.flags(process.window[rows] == 0)},
    )
