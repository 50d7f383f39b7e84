"""A few lines of training for each kind of mistake, whose outcome the mistake changes.

Run as a program: forks a child for each story and prints what all of them saw as JSON, with the mistake and without.
Torch is patched for good by a mistake, so no two of them share a process.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # optimizers import it at their first step, which would cost every child a second
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

from pytest_traincheck.mutants import install, tally

Story = Callable[[], Any]
STORIES: dict[str, Story] = {}
PLAIN = "plain"
RANKED: dict[str, Callable[[int], Any]] = {}
"""Stories of two ranks; each returns what one rank saw."""


def story(*kinds: str) -> Callable[[Story], Story]:
    def enter(function: Story) -> Story:
        STORIES.update(dict.fromkeys(kinds, function))
        return function

    return enter


def ranked(*kinds: str) -> Callable[[Callable[[int], Any]], Callable[[int], Any]]:
    def enter(function: Callable[[int], Any]) -> Callable[[int], Any]:
        RANKED.update(dict.fromkeys(kinds, function))
        return function

    return enter


def weight(value: float = 0.0) -> nn.Parameter:
    return nn.Parameter(torch.full((1,), value))


def line(*, bias: bool = False) -> nn.Linear:
    """One input, one output, a weight of one."""
    layer = nn.Linear(1, 1, bias=bias)
    with torch.no_grad():
        layer.weight.fill_(1.0)
    return layer


@story("zero-grad-skipped")
def gradient_after_two_steps() -> float:
    w = weight()
    optimizer = torch.optim.SGD([w], lr=1.0)
    w.sum().backward()
    optimizer.zero_grad()
    w.sum().backward()
    return w.grad.item()


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


@story("left-in-eval", "evaluated-in-train-mode")
def modes_after_eval_and_train() -> list[bool]:
    model = nn.Sequential(line(), nn.Sequential(line()))
    model.eval()
    evaluating = [part.training for part in model.modules()]
    model.train()
    return [any(evaluating), all(part.training for part in model.modules())]


@story("trained-in-eval")
def mode_in_the_forward_pass() -> bool:
    model = line()
    model(torch.ones(1, 1))
    return model.training


@story("evaluated-with-gradients")
def evaluation_records_gradients() -> bool:
    with torch.no_grad():
        return line()(torch.ones(1, 1)).requires_grad


def given(values: list[Any]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32, requires_grad=True)


@story("loss-summed", "loss-averaged")
def reductions() -> list[float]:
    data, target = given([1.0, 1.0, 1.0, 1.0]), torch.zeros(4)
    untrained = F.mse_loss(data.detach(), target)
    return [nn.MSELoss()(data, target).item(), F.mse_loss(data, target, reduction="sum").item(), untrained.item()]


@story("targets-shifted")
def error_of_right_answers() -> float:
    return nn.L1Loss()(given([0.0, 1.0]), torch.tensor([0.0, 1.0])).item()


@story("softmax-before-loss")
def cross_entropy_of_sure_answers() -> list[float]:
    classes = nn.CrossEntropyLoss()(given([[20.0, 0.0]]), torch.tensor([0]))
    return [round(classes.item(), 2), round(nn.BCEWithLogitsLoss()(given([20.0]), torch.ones(1)).item(), 2)]


@story("label-smoothing-lost")
def smoothed_loss() -> float:
    return round(nn.CrossEntropyLoss(label_smoothing=0.5)(given([[100.0, 0.0]]), torch.tensor([0])).item(), 2)


@story("class-weights-lost")
def weighted_loss() -> float:
    target = torch.tensor([0, 1])
    loss = F.cross_entropy(given([[0.0, 0.0], [0.0, 0.0]]), target, torch.tensor([1.0, 3.0]), reduction="sum")
    return round(loss.item() / torch.tensor(2.0).log().item(), 2)


@story("loss-of-half-the-batch")
def error_in_the_second_half() -> float:
    return F.mse_loss(given([[0.0], [0.0], [1.0], [1.0]]), torch.zeros(4, 1)).item()


@story("dropout-off", "dropout-in-evaluation")
def dropout_drops_in_training_and_evaluation() -> list[bool]:
    layer = nn.Dropout(0.5)
    data = torch.ones(100)
    return [bool((layer.train(mode)(data) == 0).any()) for mode in (True, False)]


@story("batch-norm-momentum-changed", "norm-eps-changed")
def norms() -> list[float]:
    return [nn.BatchNorm1d(1).momentum, round(nn.BatchNorm1d(1).eps, 6), round(nn.LayerNorm(1).eps, 6)]


@story("batch-norm-frozen")
def statistics_move() -> bool:
    norm = nn.BatchNorm1d(1)
    norm(torch.tensor([[3.0], [5.0]]))
    return norm.running_mean.item() != 0


@story("attention-mask-dropped")
def the_first_position_sees_itself_alone() -> list[bool]:
    query = torch.randn(1, 1, 3, 4)
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    outputs = [
        F.scaled_dot_product_attention(query, query, query, is_causal=True),
        F.scaled_dot_product_attention(query, query, query, mask),
    ]
    layer = nn.MultiheadAttention(4, 1, batch_first=True, bias=False)
    with torch.no_grad():
        layer.in_proj_weight.copy_(torch.eye(4).repeat(3, 1))
        layer.out_proj.weight.copy_(torch.eye(4))
    outputs.append(layer(query[0], query[0], query[0], attn_mask=~mask)[0])
    return [torch.allclose(output.reshape(3, 4)[0], query[0, 0, 0], atol=1e-6) for output in outputs]


@story("masked-fill-skipped")
def filled() -> float:
    return given([0.0, 0.0]).masked_fill(torch.tensor([True, False]), 7.0).max().item()


@story("activation-dropped")
def negative_numbers_through_two_activations() -> list[float]:
    model = nn.ModuleList([nn.ReLU(), nn.ReLU()])
    return [layer(torch.tensor(-1.0)).item() for layer in model]


@story("inputs-not-normalised")
def output_for_one() -> float:
    return line()(torch.ones(1, 1)).item()


@story("one-batch-reused", "batch-size-halved")
def batches() -> list[list[int]]:
    return [batch.tolist() for batch in DataLoader(list(range(4)), batch_size=2)]


@story("shuffling-dropped")
def samples_come_in_order() -> list[bool]:
    sampler = DistributedSampler(list(range(50)), num_replicas=1, rank=0)
    orders = [[int(sample) for sample in DataLoader(list(range(50)), shuffle=True)], list(sampler)]
    return [order == sorted(order) for order in orders]


@story("set-epoch-ignored")
def epoch_of_the_sampler() -> int:
    sampler = DistributedSampler(list(range(8)), num_replicas=2, rank=0)
    sampler.set_epoch(3)
    return sampler.epoch


@story("one-shard-for-all")
def second_shard() -> list[int]:
    return list(DistributedSampler(list(range(4)), num_replicas=2, rank=1, shuffle=False))


class Seeds(Dataset[int]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return torch.initial_seed()


@story("workers-seeded-alike")
def seeds_of_two_workers() -> int:
    return len({int(seed) for seed in DataLoader(Seeds(), num_workers=2)})


@story("same-numbers-drawn")
def draws_repeat_themselves() -> bool:
    w = weight()
    optimizer = torch.optim.SGD([w], lr=1.0)
    drawn = []
    for _ in range(2):
        w.sum().backward()
        optimizer.step()
        drawn.append(torch.rand(1).item())
    return drawn[0] == drawn[1]


@story("initialisation-scaled", "initialisation-skipped")
def two_initialised_weights() -> list[float]:
    first, second = (nn.Parameter(torch.empty(1, 1)) for _ in range(2))
    for w in (first, second, first):  # the layer's own initialisation, and then the model's
        nn.init.uniform_(w, 1.0, 1.0)
    return [first.item(), second.item()]


@story("tied-weights-broken")
def weights_are_tied() -> bool:
    model = nn.ModuleList([line(), line()])
    model[1].weight = model[0].weight
    return model[1].weight is model[0].weight


@story("model-not-restored")
def restored_weight() -> float:
    model = line()
    model.load_state_dict({"weight": torch.zeros(1, 1)})
    return model.weight.item()


@story("optimizer-not-restored")
def restored_rate() -> float:
    optimizer = torch.optim.SGD([weight()], lr=1.0)
    optimizer.load_state_dict(torch.optim.SGD([weight()], lr=0.5).state_dict())
    return float(optimizer.param_groups[0]["lr"])


@story("scheduler-not-restored")
def restored_epoch() -> int:
    scheduler = torch.optim.lr_scheduler.StepLR(torch.optim.SGD([weight()], lr=1.0), step_size=1)
    scheduler.load_state_dict({**scheduler.state_dict(), "last_epoch": 3})
    return int(scheduler.last_epoch)


@story("average-not-updated")
def averages() -> list[float]:
    model = line()
    own, library = torch.zeros(1, 1), torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model(torch.ones(1, 1)).sum().backward()
    library.update_parameters(model)
    optimizer.step()
    library.update_parameters(model)
    with torch.no_grad():
        own.mul_(0.5).add_(torch.ones(1, 1))
        model.weight.add_(5.0)  # the trained weight itself is no average
    return [own.item(), library.module.weight.item(), model.weight.item()]


@ranked("all-reduce-dropped-on-one-rank", "all-reduce-corrupted-on-one-rank", "all-reduce-skipped")
def reduced(_rank: int) -> float:
    value = torch.ones(1)
    dist.all_reduce(value)
    return round(value.item(), 4)


@ranked("broadcast-corrupted-on-one-rank")
def sent(rank: int) -> float:
    value = torch.tensor([1.0 - rank])
    dist.broadcast(value, src=0)
    return round(value.item(), 4)


@ranked("ranks-begin-apart", "raw-module-called", "no-sync-over-all")
def weight_and_gradient(rank: int) -> list[float]:
    model = nn.parallel.DistributedDataParallel(line())
    begun = model.module.weight.item()
    model(torch.full((1, 1), 1.0 + 2.0 * rank)).sum().backward()
    return [round(begun, 4), model.module.weight.grad.item()]


@ranked("clipping-on-one-rank")
def gradient_after_clipping(_rank: int) -> float:
    w = weight()
    (w * 10).sum().backward()
    torch.nn.utils.clip_grad_norm_([w], 1.0)
    return round(w.grad.item(), 3)


@ranked("learning-rate-differs-on-one-rank")
def weight_after_a_step(_rank: int) -> float:
    return weight_after_one_step()


def in_child(work: Callable[[], Any], output: Path) -> int:
    """Fork, and have the child write what `work` returns."""
    child = os.fork()
    if child:
        return child
    try:
        torch.manual_seed(0)
        found = {"saw": work()}
    except BaseException as error:  # noqa: BLE001 - the parent has to hear of it
        found = {"error": f"{type(error).__name__}: {error}"}
    output.write_text(json.dumps(found), encoding="utf-8")
    os._exit(0)


def alone(kinds: list[str], directory: Path) -> dict[str, Any]:
    """What the stories of some kinds see in one process, into which the directory's name is planted."""

    def work() -> Any:
        _plant(directory)
        return {kind: STORIES[kind]() for kind in kinds}

    os.waitpid(in_child(work, directory / "alone.json"), 0)
    found = _read(directory / "alone.json")
    return found.get("saw") or dict.fromkeys(kinds, found)


def together(kinds: list[str], directory: Path) -> dict[str, Any]:
    """The same for stories of two ranks."""

    def work(rank: int) -> Callable[[], Any]:
        def story_of_rank() -> dict[str, Any]:
            _plant(directory)
            dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank, world_size=2)
            found = {kind: RANKED[kind](rank) for kind in kinds}
            dist.barrier()
            return found

        return story_of_rank

    outputs = [directory / f"rank{rank}.json" for rank in range(2)]
    for child in [in_child(work(rank), output) for rank, output in enumerate(outputs)]:
        os.waitpid(child, 0)
    first, second = (_read(output) for output in outputs)
    for each in (first, second):
        if "error" in each:
            return dict.fromkeys(kinds, each)
    return {kind: [first["saw"][kind], second["saw"][kind]] for kind in kinds}


def _plant(directory: Path) -> None:
    if directory.name != PLAIN:
        install.start(directory.name, directory)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def main() -> None:
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as name:
        seen = {}
        for mode in (PLAIN, install.CENSUS):
            directory = Path(name) / mode
            directory.mkdir()
            seen[mode] = {**alone(list(STORIES), directory), **together(list(RANKED), directory)}
        places = tally.read(Path(name) / install.CENSUS)
        for kind in (*STORIES, *RANKED):
            directory = Path(name) / kind
            directory.mkdir()
            planted = (together if kind in RANKED else alone)([kind], directory)
            found[kind] = {
                "without": seen[PLAIN][kind],
                "counting": seen[install.CENSUS][kind],
                "with": planted[kind],
                "applied": tally.read(directory).get(kind, 0),
                "places": places.get(kind, 0),
            }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
