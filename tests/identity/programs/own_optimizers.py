"""Optimizers and schedulers that users write, inherit and wrap, foreach and not, with groups that come and go."""

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["average"] = torch.zeros_like(p)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = state["average"] * group["betas"][0] + p.grad * (1 - group["betas"][0])
                p.add_(update.sign_(), alpha=-group["lr"])
                state["average"].lerp_(p.grad, 1 - group["betas"][1])


class Lookahead:
    """No Optimizer at all, but one inside."""

    def __init__(self, inner):
        self.inner, self.count = inner, 0
        self.slow = [p.detach().clone() for group in inner.param_groups for p in group["params"]]

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def step(self):
        self.inner.step()
        self.count += 1
        if self.count % 2 == 0:
            fast = [p for group in self.inner.param_groups for p in group["params"]]
            torch._foreach_lerp_(self.slow, [p.detach() for p in fast], 0.5)
            with torch.no_grad():
                torch._foreach_copy_(fast, self.slow)


class Poly(torch.optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        return [base * (1 - self.last_epoch / 20) ** 0.9 for base in self.base_lrs]


class ByHand:
    def __init__(self, optimizer):
        self.optimizer, self.time = optimizer, 0

    def step(self):
        self.time += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 0.01 / self.time**0.5


torch.manual_seed(0)
makers = [
    lambda p: Lion(p),
    lambda p: torch.optim.SGD(p, 0.05, momentum=0.9, nesterov=True, foreach=True),
    lambda p: torch.optim.Adam(p, 1e-2, amsgrad=True, foreach=False),
    lambda p: torch.optim.AdamW(p, torch.tensor(1e-2), fused=True),
    lambda p: torch.optim.NAdam(p, 1e-2, maximize=True),
    lambda p: torch.optim.ASGD(p, 1e-2),
    lambda p: torch.optim.Rprop(p, 1e-2),
    lambda p: torch.optim.Muon([q for q in p if q.ndim == 2], 1e-2) if hasattr(torch.optim, "Muon") else Lion(p),
    lambda p: Lookahead(torch.optim.Adagrad(p, 1e-2)),
]
for number, maker in enumerate(makers):
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = maker(list(model.parameters()))
    inner = getattr(optimizer, "inner", optimizer)
    schedule = ByHand(inner) if number % 2 else Poly(inner)
    for step in range(3):
        loss = F.cross_entropy(model(torch.randn(6, 4)), torch.randint(0, 2, (6,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        show_loss(step, loss)
    show(
        f"rates {number}",
        [float(group["lr"]).hex() for group in inner.param_groups],
        type(inner).__name__,
        *model.parameters(),
    )
extra = nn.Linear(2, 2)
optimizer = Lion(model.parameters())
for step in range(3):
    if step == 1:
        optimizer.add_param_group({"params": extra.parameters(), "lr": 0.5})
    loss = extra(model(torch.randn(6, 4))).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 1:
        optimizer.load_state_dict(optimizer.state_dict())
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
for value in (1.0, 2.0, 3.0):
    plateau.step(value)
show("plateau", [group["lr"] for group in optimizer.param_groups], len(optimizer.state))
show_end(model=model, extra=extra)
