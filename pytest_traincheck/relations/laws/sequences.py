"""Sequences: targets that are one token ahead, masks that hide the padding, generation that ends when it shall.

Labels that are shifted by the data and by the model once more teach the token after the next. A mask that is inverted,
or not passed on, makes a model read the padding. Both train, and the loss goes down.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pytest_traincheck.relations.base import EMPTY, Examples
from pytest_traincheck.relations.batches import Batches, Sort, batches, is_loss
from pytest_traincheck.relations.laws.law import Law, Told, each_process, first_of, seen, table
from pytest_traincheck.relations.laws.places import arguments, calls_of, labels_of
from pytest_traincheck.relations.laws.reason import Reason
from pytest_traincheck.relations.meaning import Deviation, Place
from pytest_traincheck.relations.vocabulary import STOCHASTIC
from pytest_traincheck.trace import Process, Run
from pytest_traincheck.trace.stages import TRAIN

_LABELS = "https://huggingface.co/docs/transformers/tasks/language_modeling"
_MASK = "https://huggingface.co/docs/transformers/glossary#attention-mask"
_PADDED = 0.2
"""Share of rows that end in padding from which on that is no chance."""
_NEAR = 0.02


class TargetsOneAhead(Law):
    """The targets of a language model run more than one token ahead of its input, or behind it."""

    name = "TargetsOneAhead"
    subject = "torch.nn.functional.cross_entropy"
    says = "Targets that are the tokens of the input are at most one token ahead of it, and not behind"
    expected = "targets that are the next token"
    because = Reason(
        "labels-shifted-twice",
        "A language model learns the next token. Labels that the data has shifted already and that the model or the "
        "loss shifts once more are the token after the next; shifted the other way they are one that it has read.",
        _LABELS,
        "Shift once: models of transformers shift `labels` themselves and want them equal to `input_ids`.",
        "Models that predict several tokens ahead.",
    )
    right = "loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())"
    wrong = "labels = ids[:, 1:]\nloss = model(ids[:, :-1], labels=labels).loss  # shifts once more"
    place = Place.LOSS

    def places(self, run: Run) -> Examples:
        return each_process(run, _shifts)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told(f"The targets of the loss are {seen(examples, broken[0])}.", "targets that are not the next token")


class MaskHidesPadding(Law):
    """The mask of a model does not fit the padding of its tokens."""

    name = "MaskHidesPadding"
    subject = "attention_mask"
    says = "The mask that a model is given has its zeros where its tokens are padding"
    expected = "a mask with zeros at the padding"
    because = Reason(
        "mask-does-not-fit-padding",
        "A mask of another kind, inverted or computed from other tokens, hides the words and shows the padding.",
        _MASK,
        "Compare the mask with the tokens: `(input_ids != pad_token_id)`. Some layers take the opposite, 1 for what is "
        "hidden, as `key_padding_mask` of `nn.MultiheadAttention`.",
        "Masks that mean something else, and models that take 1 for what is hidden.",
    )
    right = "mask = (ids != pad).long()"
    wrong = "mask = (ids == pad).long()"
    place = Place.DATA

    def places(self, run: Run) -> Examples:
        return each_process(run, _masks)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(
            f"`{process.module_name(row)}` is given {seen(examples, broken[0])}.",
            "a mask that does not fit the padding",
        )


class MaskGiven(Law):
    """A model of transformers is given padded tokens and no attention mask."""

    name = "MaskGiven"
    subject = "transformers.PreTrainedModel.forward"
    says = "A model of transformers that is given padded tokens is given an attention mask"
    expected = "an attention mask beside padded tokens"
    because = Reason(
        "no-attention-mask",
        "Without `attention_mask` a model of transformers attends to the padding as to any other token, and what it "
        "returns for a sequence depends on the others in the batch.",
        _MASK,
        "Pass on all that the tokenizer returns: `model(**batch)`.",
        library="transformers",
    )
    right = "model(**tokenizer(texts, padding=True, return_tensors='pt'))"
    wrong = "model(tokenizer(texts, padding=True, return_tensors='pt').input_ids)"
    place = Place.DATA
    deviation = Deviation.LACKING

    def places(self, run: Run) -> Examples:
        return each_process(run, _of_transformers)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.module_name(row)}` is given tokens that are padded with 0, and no attention mask.",
                    "no attention mask")  # fmt: skip


class NewTokens(Law):
    """Generation adds more tokens than it was told."""

    name = "NewTokens"
    subject = "generate"
    says = "`generate` adds no more than `max_new_tokens` to its prompt"
    expected = "no more than `max_new_tokens` new tokens"
    because = Reason(
        "too-many-new-tokens",
        "An option that is not passed on, or counted together with the prompt, makes generation go on to another "
        "limit: it takes longer, and metrics of its texts compare something else.",
        "https://huggingface.co/docs/transformers/main_classes/text_generation",
        "Pass the limit on to the loop that generates.",
    )
    right = "for _ in range(max_new_tokens):\n    ids = append(ids)"
    wrong = "while ids.shape[1] < config.max_length:\n    ids = append(ids)"
    place = Place.FORWARD
    deviation = Deviation.TOO_OFTEN

    def places(self, run: Run) -> Examples:
        return each_process(run, _generated)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        process, row = first_of(run, examples, broken)
        return Told(f"`{process.api[row]}` adds {seen(examples, broken[0])}.", "more new tokens than asked for")


class CheckpointDraws(Law):
    """What is computed again in the backward pass draws other random numbers."""

    name = "CheckpointDraws"
    subject = "torch.utils.checkpoint.checkpoint"
    says = "A checkpoint with dropout in it preserves the random state"
    expected = "`preserve_rng_state=True`"
    because = Reason(
        "checkpoint-draws-again",
        "A checkpoint is computed a second time for its gradients. With `preserve_rng_state=False` its dropout masks "
        "are others then, and the gradients belong to no forward pass.",
        "https://docs.pytorch.org/docs/stable/checkpoint.html",
        "Leave `preserve_rng_state` at its default where something random lies inside.",
    )
    right = "checkpoint(block, x, use_reentrant=False)"
    wrong = "checkpoint(block, x, use_reentrant=False, preserve_rng_state=False)  # with dropout"
    place = Place.FORWARD

    def places(self, run: Run) -> Examples:
        return each_process(run, _checkpoints)

    def told(self, run: Run, examples: Examples, broken: list[int]) -> Told:
        return Told("A checkpoint with dropout in it is called with `preserve_rng_state=False`: its gradients are "
                    "those of other dropout masks.", "dropout masks of the backward pass differ")  # fmt: skip


def _shifts(process: Process, position: int) -> Examples:
    rows = process.measures("loss.shift")
    if not len(rows):
        return EMPTY
    values = process.events["value"][rows].astype(np.int64)
    texts = {-1: "one token behind its input", 2: "two tokens ahead of its input", 3: "three tokens ahead of its input"}
    observed = labels_of([texts.get(value, "other tokens") for value in values.tolist()])
    return table(process, position, (values == 0) | (values == 1), rows, None, None, observed)


def _inputs(process: Process) -> Iterator[tuple[str, dict[str, Batches]]]:
    """Each model and what it is given as data in training."""
    found: dict[str, dict[str, Batches]] = {}
    for (owner, given, stage), mine in batches(process).items():
        if stage == TRAIN and not is_loss(owner):
            found.setdefault(owner, {})[given] = mine
    yield from found.items()


def _share(batch: Batches, sort: Sort) -> float:
    """The share of a sort over all batches; NaN where it is not known."""
    values = batch.facts[sort]
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _padded(inputs: dict[str, Batches]) -> dict[str, Batches]:
    """Inputs that are tokens of which a good part of the rows ends or begins with 0, and not each."""
    return {
        name: mine
        for name, mine in inputs.items()
        if mine.counts
        and max(_share(mine, "zero last"), _share(mine, "zero first")) >= _PADDED
        and _share(mine, "zero") < 1 - _PADDED
        and not (mine.facts["smallest"] < 0).any()
    }


def _masks(process: Process, position: int) -> Examples:
    """One example for each mask of a model that is given padded tokens as well."""
    rows, holds, texts = [], [], []
    for _, inputs in _inputs(process):
        tokens = _padded(inputs)
        for name, mine in inputs.items():
            share = _share(mine, "zero")
            if "mask" not in name.rpartition(".")[2] or mine.counts or not tokens or np.isnan(share):
                continue
            shares = [_share(other, "zero") for other in tokens.values()]
            rows.append(int(process.parent_row[mine.rows[0]]))
            holds.append(any(abs(share - other) < _NEAR for other in shares))
            texts.append(f"tokens of which {shares[0]:.0%} are 0 and a mask `{name}` of which {share:.0%} are 0")
    return _written(process, position, rows, holds, texts)


def _of_transformers(process: Process, position: int) -> Examples:
    """One example for each model of transformers that is given padded tokens."""
    libraries = {process.names.roots[number]: symbol.get("library")
                 for number, symbol in enumerate(process.raw.symbols["root"]) if number}  # fmt: skip
    rows, holds = [], []
    for owner, inputs in _inputs(process):
        tokens = _padded(inputs)
        if tokens and libraries.get(owner) == "transformers":
            rows.append(int(process.parent_row[next(iter(tokens.values())).rows[0]]))
            holds.append(any("mask" in name for name in inputs))
    return table(process, position, holds, rows) if rows else EMPTY


def _generated(process: Process, position: int) -> Examples:
    rows, holds, texts = [], [], []
    for row in process.measures("generate.new").tolist():
        call = int(process.parent_row[row])
        values = arguments(process, call) if call >= 0 else {}
        limit, added = values.get("max_new_tokens"), process.events["value"][row]
        if isinstance(limit, int) and not np.isnan(added):
            rows.append(call)
            holds.append(added <= limit)
            texts.append(f"{int(added)} tokens where `max_new_tokens` is {limit}")
    return _written(process, position, rows, holds, texts)


def _checkpoints(process: Process, position: int) -> Examples:
    rows = process.rows_of_type("checkpoint")
    if not len(rows):
        return EMPTY
    seq, ends = process.events["seq"], process.events["end"]
    random = calls_of(process, STOCHASTIC)
    times = seq[[row for row in random.tolist() if arguments(process, row).get("training") is True]]
    draws = np.searchsorted(times, ends[rows]) > np.searchsorted(times, seq[rows])
    rows = rows[draws]
    holds = [arguments(process, row).get("preserve_rng_state") is not False for row in rows.tolist()]
    return table(process, position, holds, rows) if len(rows) else EMPTY


def _written(process: Process, position: int, rows: list[int], holds: list[bool], texts: list[str]) -> Examples:
    if not rows:
        return EMPTY
    return table(process, position, holds, rows, None, None, labels_of(texts))
