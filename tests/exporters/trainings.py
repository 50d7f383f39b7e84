"""A training as exporters are told it."""

from __future__ import annotations

from typing import Any

INCIDENT: dict[str, Any] = {
    "id": "000094011587", "title": 'zero_grad is "missing"\nor misplaced', "relation": "Accumulate",
    "kind": "behaviour",
    "subject": "torch.optim.SGD.zero_grad", "step": 3, "stage": "train", "source": "train.py:15",
    "golden": "cleared", "candidate": "left over", "ranks": [0],
}  # fmt: skip

DOCUMENT: dict[str, Any] = {
    "verdict": "fail",
    "pipeline": "net",
    "invariants": {"golden": 70, "checked": 69, "passed": 68, "violated": 1, "not_evaluated": 1},
    "incidents": [INCIDENT],
    "coverage": {"share": 0.5},
    "timing": {"golden_run_s": 0.0, "candidate_run_s": 4.5, "infer_s": 0.0, "check_s": 0.25},
}
