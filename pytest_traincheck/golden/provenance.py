"""Where a golden comes from, in words."""

from __future__ import annotations

from pytest_traincheck.golden.model import Golden
from pytest_traincheck.text import one_line, plural


def provenance(golden: Golden) -> list[tuple[str, str]]:
    """Where a golden comes from, as label and text; facts that are not known are left out."""
    seeds = ", ".join(map(str, golden.seeds))
    facts = [
        ("learned from", plural(golden.runs, "run") + (f" (seeds {seeds})" if seeds else "")),
        ("commit", golden.commit),
        ("spec", golden.spec),
        ("environment", ", ".join(f"{key} {golden.environment[key]}" for key in sorted(golden.environment))),
        ("models", ", ".join(f"{root} ({plural(len(shapes), 'variable')})" for root, shapes in golden.models.items())),
        ("optimizers", ", ".join(golden.optimizers)),
        ("plug-ins", ", ".join(golden.extensions)),
        ("reason", golden.reason),
    ]
    return [(label, one_line(text)) for label, text in facts if text]
