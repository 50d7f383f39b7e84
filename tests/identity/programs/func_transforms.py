"""torch.func: vmap, grad, jacrev, hessian, jvp, ensembles of models, per-sample gradients, forward derivatives."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import forward_ad
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from showing import show, show_end, show_loss

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Dropout(0.1), nn.Linear(7, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def loss_of(parameters, x, y):
    return F.mse_loss(functional_call(model, parameters, (x,)), y)


for step in range(4):
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    x, y = torch.randn(9, 5), torch.randn(9, 1)
    each, losses = vmap(grad_and_value(loss_of), in_dims=(None, 0, 0), randomness="different")(parameters, x, y)
    for name, value in model.named_parameters():
        value.grad = each[name].mean(0)
    optimizer.step()
    optimizer.zero_grad()
    show_loss(step, losses.mean())
model.eval()
show(
    "jacobians",
    jacrev(model)(torch.ones(5)),
    jacfwd(model)(torch.ones(5)),
    hessian(lambda x: model(x).sum())(torch.ones(5)),
)
show("vjp", *vjp(model, torch.ones(5))[1](torch.ones(1)), *jvp(model, (torch.ones(5),), (torch.ones(5),)))
show("nested", vmap(vmap(grad(lambda x: model(x).sum())))(torch.randn(2, 3, 5)))
models = [nn.Linear(5, 2) for _ in range(3)]
stacked, buffers = stack_module_state(models)
out = vmap(lambda p, b, x: functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None))(
    stacked, buffers, torch.ones(4, 5)
)
optimizer = torch.optim.Adam(stacked.values(), 1e-2)
out.square().mean().backward()
optimizer.step()
show("ensemble", out, *stacked.values())
with forward_ad.dual_level():
    dual = forward_ad.make_dual(torch.ones(2, 5), torch.ones(2, 5))
    show("forward", forward_ad.unpack_dual(F.linear(dual, model[0].weight, model[0].bias)).tangent)
show("functional", torch.autograd.functional.hessian(lambda x: model(x).sum(), torch.ones(5)))
show("second order", torch.func.functionalize(lambda x: F.relu(x).add_(1))(torch.ones(2)))
show_end(model=model)
