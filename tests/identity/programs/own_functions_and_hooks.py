"""Functions with derivatives of their own, and every kind of hook, ones that change what passes through included."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd.function import once_differentiable
from showing import show, show_end, show_loss

order = []


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(x, scale):
        return torch.round(x * scale) / scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.scale = inputs[1]

    @staticmethod
    def backward(ctx, grad):
        order.append("straight")
        return grad, None


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        return grad * 2


class Layer(nn.Linear):
    def forward(self, x):
        return Twice.apply(Straight.apply(F.linear(x, self.weight, self.bias), 16.0) + 0)


torch.manual_seed(0)
model = nn.Sequential(Layer(4, 6), nn.ReLU(), nn.Linear(6, 3))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
model[0].register_forward_pre_hook(lambda m, args, kwargs: ((args[0] * 0.5,), kwargs), with_kwargs=True)
model[1].register_forward_hook(lambda m, args, out: out + 0.25)
model[2].register_forward_hook(lambda m, args, kwargs, out: out.clone(), with_kwargs=True, always_call=True)
model[2].register_full_backward_pre_hook(lambda m, grad: (grad[0] * 1.5,))
model[1].register_full_backward_hook(lambda m, inputs, outputs: order.append("relu"))
model[2].weight.register_hook(lambda grad: grad.clamp(-0.1, 0.1))
model[2].bias.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(0.5) is None or None)
optimizer.register_step_pre_hook(lambda o, args, kwargs: order.append("before step"))
optimizer.register_step_post_hook(lambda o, args, kwargs: order.append("after step"))
fused = {p: torch.optim.SGD([p], 0.01) for p in model[0].parameters()}
for p in fused:
    p.register_post_accumulate_grad_hook(lambda p: fused[p].step() or fused[p].zero_grad())
for step in range(5):
    x = torch.randn(5, 4, requires_grad=True)
    hidden = model[:2](x)
    hidden.retain_grad()
    hidden.grad_fn.register_prehook(lambda grads: order.append("node before"))
    hidden.grad_fn.register_hook(lambda inputs, outputs: order.append("node after"))
    loss = F.cross_entropy(model[2](hidden), torch.randint(0, 3, (5,)))
    optimizer.zero_grad()
    loss.backward(retain_graph=step == 2)
    if step == 2:
        show("again", *torch.autograd.grad(loss, hidden))
    torch.autograd.graph.increment_version(model[2].weight)
    optimizer.step()
    show_loss(step, loss)
    show("gradients", hidden.grad, x.grad)
    print(order)
    order.clear()
with torch.autograd.graph.register_multi_grad_hook(
    tuple(model[2].parameters()), lambda grads: order.append(len(grads))
):
    model(torch.randn(2, 4)).sum().backward()
print(
    order,
    torch.autograd.gradcheck(
        lambda w: F.linear(torch.ones(2, 3).double(), w), torch.randn(2, 3, dtype=torch.double, requires_grad=True)
    ),
)
show_end(model=model)
