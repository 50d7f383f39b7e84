"""Stories of modes, losses, layers and what a model is restored from."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from story import line, story, weight
from torch import nn


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


@story("initialisation-scaled", "initialisation-skipped")
def two_initialised_weights() -> list[float]:
    first, second = (nn.Parameter(torch.empty(1, 1)) for _ in range(2))
    for w in (first, second, first):  # the layer's own initialisation, and then the model's
        nn.init.uniform_(w, 1.0, 1.0)
    return [first.item(), second.item()]


def drawn_weight() -> torch.Tensor:
    w = nn.Parameter(torch.empty(2, 3))
    torch.manual_seed(1)
    nn.init.uniform_(w, -1.0, 1.0)
    return w.detach()


@story("initialisation-constant")
def weight_is_constant() -> bool:
    return len(drawn_weight().unique()) == 1


@story("initialisation-drawn-anew")
def weight_is_what_was_drawn_first() -> bool:
    weight = drawn_weight()
    torch.manual_seed(1)
    return torch.equal(weight, torch.empty(2, 3).uniform_(-1.0, 1.0))


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
