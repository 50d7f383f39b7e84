"""A golden as lines of JSON: one invariant a line, in canonical order, the same bytes for the same content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import ARGUMENTS, EXTENSIONS, FORMAT, IGNORES_SEED, STEPS, TRAININGS, Golden
from pytest_traincheck.rules.claims import to_json
from pytest_traincheck.rules.model import Invariant


def encode(golden: Golden) -> bytes:
    """The whole file: the header line, then one line per invariant, sorted by subject, relation, sentence and id.

    Raises `GoldenError` for content that a reader could not give back unchanged (NaN, keys that are not strings).
    """
    lines = {}
    for invariant in golden.invariants:
        key, line = _invariant_line(invariant)
        if key in lines:
            raise GoldenError(
                f"Two rules claim the same thing: {invariant.sentence!r} (id {invariant.id}) of pipeline "
                f"{golden.pipeline!r}. The relation {invariant.relation!r} must propose each rule once."
            )
        lines[key] = (invariant.subject, invariant.relation, invariant.sentence, key, line)
    header = _line(_header(golden, len(lines)), f"the header of {golden.pipeline!r}")
    return "".join([header, *(entry[-1] for entry in sorted(lines.values()))]).encode("utf-8")


def _invariant_line(invariant: Invariant) -> tuple[str, str]:
    what = f"the rule {invariant.sentence!r}"
    # The line first: it refuses what the id could not be computed from.
    line = _line({"id": "", **_invariant(invariant)}, what)
    return invariant.id, line.replace('"id": ""', f'"id": "{invariant.id}"', 1)


def _header(golden: Golden, count: int) -> dict[str, Any]:
    header = {
        "format": FORMAT,
        "pipeline": golden.pipeline,
        "spec": golden.spec,
        "commit": golden.commit,
        "environment": golden.environment,
        "seeds": list(golden.seeds),
        "runs": golden.runs,
        "invariants": count,
        "reason": golden.reason,
        "models": golden.models,
        "optimizers": golden.optimizers,
    }
    # Written only where it is so: other goldens keep the bytes that they had before there was this key.
    header |= {IGNORES_SEED: True} if golden.ignores_seed else {}
    header |= {ARGUMENTS: {model: list(names) for model, names in golden.arguments.items()}} if golden.arguments else {}
    header |= {STEPS: golden.steps} if golden.steps else {}
    header |= {TRAININGS: list(golden.trainings)} if golden.trainings else {}
    return header | ({EXTENSIONS: dict(golden.extensions)} if golden.extensions else {})


def _invariant(invariant: Invariant) -> dict[str, Any]:
    return {
        "relation": invariant.relation,
        "subject": invariant.subject,
        "sentence": invariant.sentence,
        "scope": invariant.scope.value,
        "kind": invariant.kind.value,
        "claim": to_json(invariant.claim),
        "when": [clause.to_json() for clause in invariant.when],
        "support": {"examples": invariant.examples, "runs": invariant.runs},
    }


def _sorted(value: Any) -> Any:
    """`value` with the keys of every mapping in order."""
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is not a string")
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, (list, tuple)):
        return [_sorted(item) for item in value]
    return value


def _line(content: Mapping[str, Any], what: str) -> str:
    try:
        # The outer object and the clauses keep the order in which a person reads them.
        ordered = {key: value if key == "when" else _sorted(value) for key, value in content.items()}
        text = json.dumps(ordered, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")
    except (TypeError, ValueError) as error:
        raise GoldenError(
            f"Cannot store {what}: {error}. A golden holds finite numbers, strings, lists and objects only; "
            "change what the relation puts into the claim."
        ) from error
    return text + "\n"
