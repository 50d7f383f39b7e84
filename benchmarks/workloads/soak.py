"""A tiny regression that trains for as long as it is told, resumes on the way, and may be told to go wrong at a step.

`RESUME_AT` is the step at which model and optimizer are made anew and loaded, with `RESUME_IN=process` by another
process; `WRONG` names what goes wrong there (`resume`) or at the step `WRONG_AT`.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn


def build() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 1))
    model[0].requires_grad_(False)
    return model, torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.01, momentum=0.9)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--resume", default="")
    args = parser.parse_args()
    resume_at, wrong_at = int(os.environ.get("RESUME_AT", -1)), int(os.environ.get("WRONG_AT", -1))
    wrong = os.environ.get("WRONG", "")
    torch.manual_seed(args.seed)
    inputs = torch.randn(2048, 10)
    targets = inputs @ torch.randn(10, 1) + 0.1 * torch.randn(2048, 1)
    model, optimizer = build()
    begin = 0
    if args.resume:
        saved = torch.load(args.resume)
        model.load_state_dict(saved["model"])
        if wrong != "resume":
            optimizer.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["random"])
        begin, resume_at = resume_at, -1
    for step in range(begin, args.steps):
        if step == resume_at and os.environ.get("RESUME_IN") == "process":
            file = str(Path(tempfile.mkdtemp()) / "checkpoint.pt")
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**state, "random": torch.get_rng_state()}, file)
            os.execv(sys.executable, [sys.executable, *sys.argv, "--resume", file])
        if step == resume_at:
            state = model.state_dict(), optimizer.state_dict()
            model, optimizer = build()
            model.load_state_dict(state[0])
            if wrong != "resume":
                optimizer.load_state_dict(state[1])
        rows = torch.randint(0, len(inputs), (64,))
        if not (wrong == "zero_grad" and step == wrong_at):
            optimizer.zero_grad()
        loss = F.mse_loss(model(inputs[rows]), targets[rows])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if wrong == "frozen" and step == wrong_at:
            model[0].weight.data.mul_(1.001)
        if step % 500 == 499:
            model.eval()
            with torch.no_grad():
                F.mse_loss(model(inputs), targets)
            if not (wrong == "eval" and step + 1 >= wrong_at):
                model.train()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
