"""The text of tracebacks, line by line, of mistakes in functions, modules, losses, backward and steps."""

# farm: sample
# farm: exits 1
import logging
import sys
import traceback

import torch
import torch.nn.functional as F
from torch import nn
from showing import show_end, show_loss


class Broken(nn.Module):
    def forward(self, x):
        return self.inner(x)

    def inner(self, x):
        raise KeyError("in the middle")


class BrokenBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        raise ZeroDivisionError("in backward")


def hook(*args):
    raise LookupError("in a hook")


hooked = nn.Linear(2, 2)
hooked.register_forward_hook(hook)
pre_hooked = nn.Linear(2, 2)
pre_hooked.register_forward_pre_hook(hook)
x, leaf = torch.randn(3, 4), torch.randn(2, requires_grad=True)
data = torch.utils.data.DataLoader([{"a": 1}, {"b": 2}], batch_size=2)
optimizer = torch.optim.SGD([leaf], 0.1)


def closure():
    raise BufferError("in a closure")


MISTAKES = {
    "linear": lambda: F.linear(x, torch.randn(5, 5)),
    "module": lambda: nn.Linear(3, 3)(x),
    "deep": lambda: nn.Sequential(nn.Identity(), nn.Sequential(nn.ReLU(), nn.Linear(3, 3)))(x),
    "arguments": lambda: nn.Linear(4, 3)(x, x),
    "no arguments": lambda: nn.Linear(4, 3)(),
    "of the user": lambda: Broken()(x),
    "cross entropy": lambda: F.cross_entropy(x, torch.tensor([0, 1, 9])),
    "cross entropy shapes": lambda: F.cross_entropy(x, torch.randn(3, 5)),
    "cross entropy argument": lambda: F.cross_entropy(x, torch.tensor([0, 1, 2]), reduction="none of these"),
    "unknown argument": lambda: F.dropout(x, q=1),
    "dropout": lambda: F.dropout(x, 1.5),
    "embedding": lambda: F.embedding(torch.tensor([7]), x),
    "no graph": lambda: x.sum().backward(),
    "not scalar": lambda: (leaf * 2).backward(),
    "backward of the user": lambda: BrokenBackward.apply(leaf).sum().backward(),
    "grad": lambda: torch.autograd.grad(leaf.sum(), x),
    "in place": lambda: leaf.add_(1),
    "hook": lambda: hooked(torch.randn(1, 2)),
    "pre-hook": lambda: pre_hooked(torch.randn(1, 2)),
    "collate": lambda: list(data),
    "optimizer": lambda: torch.optim.SGD([], 0.1),
    "optimizer argument": lambda: torch.optim.SGD([leaf], lr=-1),
    "step": lambda: optimizer.step(closure),
    "scheduler": lambda: torch.optim.lr_scheduler.StepLR(None, 1),
    "state": lambda: nn.Linear(2, 2).load_state_dict({"weight": x}),
    "clip": lambda: (
        nn.utils.clip_grad_norm_([torch.full((1,), float("nan"), requires_grad=True)], 1.0, True)
        if False
        else nn.utils.clip_grad_norm_("text", 1.0)
    ),
    "attribute": lambda: nn.Linear(2, 2).nothing,
    "init": lambda: nn.init.xavier_uniform_(torch.empty(3)),
    "not implemented": lambda: nn.Module()(x),
    "checkpoint": lambda: torch.utils.checkpoint.checkpoint(Broken(), x, use_reentrant=False),
    "load": lambda: torch.load("nothing.pt"),
    "compile": lambda: torch.compile(Broken(), backend="eager", fullgraph=True)(x),
    "collective": lambda: torch.distributed.all_reduce(x),
    "vmap": lambda: torch.func.vmap(lambda row: row.item())(x),
    "matmul": lambda: x @ x,
    "to": lambda: nn.Linear(1, 1).to("nowhere"),
}
sys.tracebacklimit = 100
for name, mistake in MISTAKES.items():
    print("#", name)
    try:
        mistake()
        print("nothing was raised")
    except Exception as error:
        text = traceback.format_exc()
        kept = [line.replace("^", "").replace("~", "").rstrip() for line in text.splitlines()]
        print("\n".join(line[-200:] for line in kept if line))
        print(len(traceback.extract_tb(error.__traceback__)), type(error.__context__), type(error.__cause__))
        print([(frame.f_code.co_name, number) for frame, number in traceback.walk_tb(error.__traceback__)])
logging.basicConfig()
torch.manual_seed(0)
model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(4, 3)), torch.tensor([0, 1, 1, 0]))
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
show_end(model=model)
try:
    nn.Linear(3, 3)(x)
except RuntimeError:
    logging.exception("logged")
nn.Sequential(nn.Linear(3, 3))(x)
