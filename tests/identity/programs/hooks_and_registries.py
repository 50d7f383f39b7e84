"""Global registries of hooks and patches: what stands in them is what the program itself put there."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules import module as registry
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from showing import show, show_end, show_loss

for name in sorted(vars(registry)):
    if name.startswith("_global_"):
        value = getattr(registry, name)
        print(name, len(value) if hasattr(value, "__len__") else value)
torch.manual_seed(0)
order = []
handles = [
    nn.modules.module.register_module_forward_pre_hook(lambda m, a: order.append(f"pre {type(m).__name__}")),
    nn.modules.module.register_module_forward_hook(lambda m, a, o: order.append(f"post {type(m).__name__}")),
    nn.modules.module.register_module_full_backward_hook(lambda m, i, o: order.append(f"back {type(m).__name__}")),
    nn.modules.module.register_module_parameter_registration_hook(lambda m, n, p: order.append(f"parameter {n}")),
    nn.modules.module.register_module_module_registration_hook(lambda m, n, s: order.append(f"module {n}")),
    nn.modules.module.register_module_buffer_registration_hook(lambda m, n, b: order.append(f"buffer {n}")),
    register_optimizer_step_pre_hook(lambda *_: order.append("pre step")),
    register_optimizer_step_post_hook(lambda *_: order.append("post step")),
]
model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 2))
print(
    [
        (type(m).__name__, [len(v) for k, v in vars(m).items() if "hook" in k and hasattr(v, "__len__")])
        for m in model.modules()
    ]
)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
print([(k, len(v)) for k, v in vars(optimizer).items() if "hook" in k])
print([p._backward_hooks for p in model.parameters()], [p._post_accumulate_grad_hooks for p in model.parameters()])
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(4, 3)), torch.tensor([0, 1, 1, 0]))
    print(loss.grad_fn.name(), [f.name() for f, _ in loss.grad_fn.next_functions])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
    print(order)
    order.clear()
print([p._backward_hooks for p in model.parameters()], [p._post_accumulate_grad_hooks for p in model.parameters()])
print([p._version for p in model.parameters()], [type(p).__name__ for p in model.parameters()])
for handle in handles:
    handle.remove()
nn.Linear.forward = lambda self, x: F.linear(x, self.weight * 2, self.bias)
original_relu, F.relu = F.relu, lambda x, inplace=False: original_relu(x) + 1
original_step = torch.optim.SGD.step
torch.optim.SGD.step = lambda self, closure=None: order.append("patched") or original_step(self, closure)
original_backward = torch.Tensor.backward
torch.Tensor.backward = lambda self, *a, **k: order.append("backward") or original_backward(self, *a, **k)
model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(4, 3)), torch.tensor([0, 1, 1, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
torch.Tensor.backward, torch.optim.SGD.step, F.relu = original_backward, original_step, original_relu
show("after", order, F.relu(torch.tensor(-1.0)))
show_end(model=model)
