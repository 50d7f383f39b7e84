"""Depth and names of the stack, from everywhere that user code is called back."""

# farm: sample
import inspect
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from showing import show, show_end, show_loss

counts = {}


def stack(where):
    frame, names = sys._getframe(1), []
    while frame is not None:
        names.append(f"{frame.f_code.co_filename.rpartition('/')[2]}:{frame.f_code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    counts.setdefault(where, []).append(len(inspect.stack()))
    if len(counts[where]) <= 2:
        print(where, len(names), " < ".join(names))


class Data(Dataset):
    def __len__(self):
        stack("len")
        return 8

    def __getitem__(self, index):
        stack("getitem")
        return torch.full((3,), float(index)), index % 2


def collate(samples):
    stack("collate")
    return torch.utils.data.default_collate(samples)


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        stack("function forward")
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        stack("function backward")
        return grad * 2 * ctx.saved_tensors[0]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        stack("init")
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)
        self.apply(self.begin)

    def __setattr__(self, name, value):
        stack("setattr")
        super().__setattr__(name, value)

    def begin(self, module):
        stack("apply")

    def train(self, mode=True):
        stack("train")
        return super().train(mode)

    def forward(self, x):
        stack("forward")
        return self.b(Square.apply(torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False)))

    def inner(self, x):
        stack("checkpointed")
        return F.dropout(self.a(x), 0.1, self.training)

    def _load_from_state_dict(self, *args, **kwargs):
        stack("load")
        return super()._load_from_state_dict(*args, **kwargs)


class Own(torch.optim.Optimizer):
    def __init__(self, params):
        stack("optimizer init")
        super().__init__(params, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure=None):
        stack("optimizer step")
        with torch.enable_grad():
            loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad, alpha=group["lr"])
        return loss

    def zero_grad(self, set_to_none=True):
        stack("zero_grad")
        super().zero_grad(set_to_none)


torch.manual_seed(3)
net = Net()
net.load_state_dict(net.state_dict())
optimizer = Own(net.parameters())
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: stack("lambda") or 0.9**epoch)
net.a.register_forward_hook(lambda *_: stack("forward hook"))
net.a.register_forward_pre_hook(lambda *_: stack("forward pre-hook"))
net.b.register_full_backward_hook(lambda *_: stack("backward hook"))
net.a.weight.register_hook(lambda grad: stack("tensor hook"))
net.a.bias.register_post_accumulate_grad_hook(lambda p: stack("accumulate hook"))
optimizer.register_step_pre_hook(lambda *_: stack("step pre-hook"))
optimizer.register_step_post_hook(lambda *_: stack("step post-hook"))
net.register_state_dict_post_hook(lambda *_: stack("state dict hook"))
loader = DataLoader(Data(), batch_size=2, shuffle=True, collate_fn=collate)
for step, (x, y) in enumerate(loader):

    def closure():
        stack("closure")
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: stack("pack") or t, lambda t: stack("unpack") or t):
            (loss * loss).backward()
        return loss

    loss = optimizer.step(closure)
    schedule.step()
    net.train()
    show_loss(step, loss)
net.state_dict()
nn.utils.parametrize.register_parametrization(net.a, "weight", nn.Tanh())
net.a.weight.register_hook(lambda grad: stack("parametrized"))
net(x).sum().backward()
for where, depths in counts.items():
    show(where, depths)
show_end(net=net)
