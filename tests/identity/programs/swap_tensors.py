"""torch.utils.swap_tensors, and conversions and loading of state that swap instead of copy."""

# farm: sample
import copy

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss


def train(model, steps, dtype=torch.float32):
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for step in range(steps):
        loss = F.cross_entropy(model(torch.randn(4, 3, dtype=dtype)), torch.tensor([0, 1, 1, 0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show_loss(step, loss)
    return optimizer


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
saved = copy.deepcopy(model.state_dict())
train(model, 3)
left, right = model[0].weight, nn.Parameter(torch.ones(4, 3))
torch.utils.swap_tensors(left, right)
show("swapped", left, right, left is model[0].weight)
torch.__future__.set_swap_module_params_on_conversion(True)
model.zero_grad()
identities = [id(p) for p in model.parameters()]
model.double()
train(model, 2, torch.float64)
model.zero_grad()
model.float()
model.to(torch.float32)
print(identities == [id(p) for p in model.parameters()])
model.load_state_dict(saved)
optimizer = train(model, 3)
optimizer.zero_grad()
model.load_state_dict(saved, assign=True)
model.to("cpu").to(torch.bfloat16).float()
nn.Module._apply(model, lambda t: t * 2)
train(model, 2)
show_end(model=model)
