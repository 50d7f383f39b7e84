"""LBFGS with a line search, and sharpness-aware minimisation that steps twice with a closure."""

import torch
import torch.nn.functional as F
from torch import nn
from showing import show_end, show_loss


class Sam(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **kwargs):
        super().__init__(params, {"rho": rho, **kwargs})
        self.base = base(self.param_groups, **kwargs)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def step(self, closure):
        norm = torch.norm(torch.stack([p.grad.norm() for group in self.param_groups for p in group["params"]]))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["old"] = p.data.clone()
                p.add_(p.grad * group["rho"] / (norm + 1e-12))
        with torch.enable_grad():
            self.zero_grad()
            closure()
        for group in self.param_groups:
            for p in group["params"]:
                p.data = self.state[p]["old"]
        return self.base.step()


torch.manual_seed(0)
model = nn.LSTM(4, 8, batch_first=True)
head = nn.Linear(8, 1)
optimizer = torch.optim.LBFGS(
    [*model.parameters(), *head.parameters()], lr=0.5, max_iter=4, line_search_fn="strong_wolfe"
)
x, y = torch.randn(6, 5, 4), torch.randn(6, 5, 1)
calls = []


def closure():
    optimizer.zero_grad()
    loss = F.mse_loss(head(model(x)[0]), y)
    loss.backward()
    calls.append(float(loss))
    return loss


for step in range(4):
    show_loss(step, optimizer.step(closure))
print(len(calls), [value.hex() for value in calls])
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
sam = Sam(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
for step in range(5):
    x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))

    def again():
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        return loss

    loss = again()
    sam.step(again)
    sam.zero_grad()
    show_loss(step, loss)
show_end(model=model, head=head, net=net)
