"""How deep modules can be nested before the interpreter gives up, and a nesting of 240 levels that trains."""

import sys

import torch
from torch import nn
from showing import show, show_end, show_loss


def nested(levels):
    model = nn.Linear(2, 2)
    for _ in range(levels):
        model = nn.Sequential(model)
    return model


def works(model, x):
    try:
        model(x)
        return True
    except RecursionError:
        return False


def deepest(limit):
    low, high = 1, limit
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if works(nested(middle), torch.ones(1, 2)) else (low, middle)
    return low


torch.manual_seed(4)
print("limit", sys.getrecursionlimit())
model = nested(240)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    loss = model(torch.randn(3, 2)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
# The last frames before the end may be those of whoever else is called at the bottom.
show("deepest, in tens", deepest(400) // 10)


class Endless(nn.Module):
    def forward(self, x, depth=0):
        self.depth = depth
        return self(x, depth + 1)


endless = Endless()
try:
    endless(torch.ones(1))
except RecursionError as error:
    show("endless, in tens", endless.depth // 10, str(error)[:32])


def plain(depth=0):
    try:
        return plain(depth + 1)
    except RecursionError:
        return depth


show("plain", plain())
sys.setrecursionlimit(5000)
show("deepest of more", deepest(2400) > 900)
model.train(False)
print(len(list(model.modules())), len(str(model.state_dict().keys())))
show_end(model=model)
