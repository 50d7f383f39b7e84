"""torch.masked: masked tensors, reductions and autograd through them."""

import warnings

import torch
from torch import nn
from torch.masked import as_masked_tensor, masked_tensor
from showing import show, show_end, show_loss

warnings.filterwarnings("ignore", message="The PyTorch API of MaskedTensors is in prototype")
torch.manual_seed(0)
weight = nn.Parameter(torch.randn(4, 3))
model = nn.ParameterDict({"weight": weight})
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(5):
    mask = torch.rand(4, 3) > 0.4
    mask[0] = True
    x = masked_tensor(torch.randn(4, 3), mask)
    weighted = as_masked_tensor(weight, mask) * x
    loss = (weighted.mean(0).get_data().nan_to_num() ** 2).sum() + torch.masked.sum(weight * 0.1, mask=mask)
    optimizer.zero_grad()
    loss.backward()
    weight.grad = weight.grad.get_data() if hasattr(weight.grad, "get_data") else weight.grad
    optimizer.step()
    show_loss(step, loss)
    print(x.sum(), x.amax(1), x.mean(), (x + x).get_mask().sum(), type(weighted).__name__, type(weight.grad).__name__)
data = masked_tensor(torch.tensor([1.0, 4.0, 9.0]), torch.tensor([True, False, True]), requires_grad=True)
torch.sqrt(data).sum().backward()
print(data.grad, data + data, torch.where(data.get_mask(), data.get_data(), 0.0))
show("softmax", torch.masked.softmax(torch.randn(2, 3), 1, mask=torch.tensor([True, False, True])))
show("means", torch.masked.mean(torch.ones(2, 3), 1), torch.masked.log_softmax(torch.ones(2, 3), 0))
show_end(model=model)
