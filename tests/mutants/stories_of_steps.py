"""Stories of gradients, optimizers, schedules and precision: what a training step does."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any

import torch
from story import line, story, weight
from torch import nn


@story("zero-grad-skipped")
def gradient_after_two_steps() -> float:
    w = weight()
    optimizer = torch.optim.SGD([w], lr=1.0)
    w.sum().backward()
    optimizer.zero_grad()
    w.sum().backward()
    return w.grad.item()


@story("weights-in-bfloat16")
def small_update() -> float:
    w = weight(1.0)
    optimizer = torch.optim.SGD([w], lr=2**-10)
    w.sum().backward()
    optimizer.step()
    return w.item()


@story("zero-grad-partial")
def which_gradients_are_cleared() -> list[bool]:
    first, second = weight(), weight()
    optimizer = torch.optim.SGD([first, second], lr=1.0)
    (first + second).sum().backward()
    optimizer.zero_grad()
    module = nn.ParameterList([weight(), weight()])
    sum(module).sum().backward()
    module.zero_grad()
    return [w.grad is None for w in (first, second, *module)]


@story("zero-grad-within-accumulation", "accumulation-not-normalised")
def accumulated_gradient() -> float:
    w = weight()
    optimizer = torch.optim.SGD([w], lr=1.0)
    seen = 0.0
    for _ in range(2):
        optimizer.zero_grad()
        for _ in range(4):
            (w.sum() / 4).backward()
        seen = w.grad.item()
        optimizer.step()
    return seen


@story("loss-scaled")
def gradient_of_one_pass() -> float:
    w = weight()
    w.sum().backward()
    return round(w.grad.item(), 6)


@story("backward-skipped")
def gradient_of_three_passes() -> float:
    w = weight()
    for _ in range(3):
        w.sum().backward()
    return w.grad.item()


@story("output-detached")
def first_layer_has_a_gradient() -> bool:
    model = nn.Sequential(line(), line())
    model(torch.ones(1, 1)).sum().backward()
    # As a script does that saves its model as a whole.
    pickle.dumps(model)
    return model[0].weight.grad is not None


@story("clipping-dropped", "clipping-times-ten", "clipping-by-another-norm", "clipping-before-backward")
def clipped_gradient() -> float:
    w = nn.Parameter(torch.zeros(2))
    (w * torch.tensor([30.0, 40.0])).sum().backward()
    torch.nn.utils.clip_grad_norm_([w], 1.0)
    return round(w.grad.norm().item(), 3)


@story("clipping-after-step")
def clipped_step() -> list[float]:
    w = weight()
    optimizer = torch.optim.SGD([w], lr=1.0)
    (w * 10).sum().backward()
    torch.nn.utils.clip_grad_norm_([w], 1.0)
    optimizer.step()
    return [round(w.item(), 3), round(w.grad.item(), 3)]


@story("step-every-second", "step-never", "step-twice")
def weight_after_two_steps() -> float:
    w = weight()
    optimizer = torch.optim.SGD([w], lr=1.0)
    for _ in range(2):
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()
    return w.item()


@story("run-cut-short")
def weight_when_the_program_ends() -> float:
    w = weight()
    optimizer = torch.optim.SGD([w], lr=1.0)
    with contextlib.suppress(SystemExit):
        for _ in range(2):
            optimizer.zero_grad()
            w.sum().backward()
            optimizer.step()
    return w.item()


@story("optimizer-made-anew")
def weight_after_two_steps_with_momentum() -> float:
    w = weight()
    optimizer = torch.optim.SGD([w], lr=1.0, momentum=0.5)
    for _ in range(2):
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()
    return w.item()


@story("optimizer-of-copies")
def weight_after_one_step() -> float:
    w = weight()
    optimizer = torch.optim.SGD([{"params": [w]}], lr=1.0)
    w.sum().backward()
    optimizer.step()
    return w.item()


@story("parameter-left-out")
def parameters_held() -> int:
    optimizer = torch.optim.SGD(line(bias=True).parameters(), lr=1.0)
    return sum(len(group["params"]) for group in optimizer.param_groups)


@story("parameter-frozen")
def parameters_trained() -> int:
    model = line(bias=True)
    torch.optim.SGD(model.parameters(), lr=1.0)
    return sum(w.requires_grad for w in model.parameters())


@story("learning-rate-times-ten", "betas-changed", "eps-changed", "weight-decay-lost")
def adam() -> dict[str, Any]:
    optimizer = torch.optim.AdamW([{"params": [weight()], "lr": 0.5}, {"params": [weight()]}], lr=0.25)
    first, second = optimizer.param_groups
    return {
        "lr": [first["lr"], second["lr"]],
        "betas": list(first["betas"]),
        "eps": first["eps"],
        "weight_decay": first["weight_decay"],
    }


@story("momentum-changed")
def momentum() -> float:
    return float(torch.optim.SGD([weight()], lr=1.0, momentum=0.5).param_groups[0]["momentum"])


@story("weight-decay-everywhere")
def weight_decays() -> list[float]:
    groups = [{"params": [weight()], "weight_decay": 0.5}, {"params": [weight()], "weight_decay": 0.0}]
    return [group["weight_decay"] for group in torch.optim.AdamW(groups, lr=1.0).param_groups]


@story("scheduler-skipped", "scheduler-twice", "scheduler-every-second", "scheduler-before-optimizer")
def scheduled_steps() -> list[float]:
    """How far the weight goes in each of three steps, with a rate that halves after each."""
    w = weight()
    optimizer = torch.optim.SGD([w], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    seen = []
    for _ in range(3):
        before = w.item()
        optimizer.zero_grad()
        w.sum().backward()
        optimizer.step()
        scheduler.step()
        seen.append(before - w.item())
    return seen


@story("autocast-off", "autocast-in-another-dtype")
def dtype_under_autocast() -> str:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return str(line()(torch.ones(1, 1)).dtype)


def scaled() -> tuple[nn.Parameter, torch.optim.Optimizer, torch.amp.GradScaler]:
    w = weight()
    return w, torch.optim.SGD([w], lr=1.0), torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)


@story("scaler-skips-steps")
def weight_after_two_scaled_steps() -> float:
    w, optimizer, scaler = scaled()
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(w.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    return w.item()


@story("loss-not-scaled")
def scaled_gradient() -> float:
    w, _, scaler = scaled()
    scaler.scale(w.sum()).backward()
    return w.grad.item()


@story("scaler-never-updated")
def scale_after_two_steps() -> float:
    w, optimizer, scaler = scaled()
    for _ in range(2):
        scaler.scale(w.sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    return float(scaler.get_scale())


@story("unscale-omitted")
def unscaled_gradient_and_step() -> list[float]:
    w, optimizer, scaler = scaled()
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    seen = w.grad.item()
    scaler.step(optimizer)
    return [seen, w.item()]
