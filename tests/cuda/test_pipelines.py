"""Whole comparisons on a GPU: right code passes, and what is broken is named by its cause."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

TRAIN = """\
import argparse

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--seed", type=int, default=0)
arguments = parser.parse_args()
torch.manual_seed(arguments.seed)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.inward, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden):
        query, key, value = self.inward(self.norm(hidden)).chunk(3, dim=-1)
        found = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return hidden + self.dropout(self.out(found))


class Model(nn.Module):
    def __init__(self, words=100, width=48):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        hidden = self.words(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


model = Model().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=2.0**8)
own = torch.Generator().manual_seed(arguments.seed)
text = torch.randint(0, 100, (3000,), generator=own)
for _ in range(10):
    places = torch.randint(0, 3000 - 25, (8,), generator=own).tolist()
    tokens = torch.stack([text[place : place + 25] for place in places]).to("cuda", non_blocking=True)
    with torch.autocast("cuda", torch.float16):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
print(loss.item())
"""

BROKEN = {
    "not cleared": ("    optimizer.zero_grad()\n", "", "zero_grad"),
    "no autocast": ("torch.float16)", "torch.float16, enabled=False)", "autocast"),
    "clipped while scaled": (
        "    scaler.unscale_(optimizer)\n    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
        "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    scaler.unscale_(optimizer)\n",
        "unscale_",
    ),
    "half of the loss": ("scaler.scale(loss)", "scaler.scale(loss / 2)", "loss"),
}


def compared(place: Path, candidate: str, *more: str) -> dict[str, Any]:
    for name, text in (("golden", TRAIN), ("candidate", candidate)):
        (place / name).mkdir()
        (place / name / "train.py").write_text(text)
    words = [sys.executable, "-m", "pytest_traincheck", "compare", "--golden", "golden", "--candidate", "candidate"]
    words += ["--run", "python train.py", "--seed-arg", "--seed {seed}", "--seeds", "0,1,2", "--json", "out.json"]
    done = subprocess.run([*words, *more], cwd=place, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    found: dict[str, Any] = json.loads((place / "out.json").read_text())
    return found


@pytest.mark.parametrize("more", [(), ("--candidate-seed", "7")], ids=["the same", "another seed"])
def test_right_code_passes(tmp_path: Path, more: tuple[str, ...]) -> None:
    found = compared(tmp_path, TRAIN, *more)
    assert found["incidents"] == []
    assert more or found["coverage"]["share"] > 0.5


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_named(tmp_path: Path, name: str) -> None:
    old, new, named = BROKEN[name]
    assert TRAIN.count(old) == 1
    found = compared(tmp_path, TRAIN.replace(old, new))
    assert named in found["incidents"][0]["title"]
