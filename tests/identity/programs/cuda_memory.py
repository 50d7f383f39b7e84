"""What a GPU holds while a program trains: nothing is kept longer, and the program's own peak is what it was."""

# farm: cuda

import gc
import weakref

import torch
import torch.nn.functional as F
from showing import show, show_end
from torch import nn

torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
model = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)).cuda()
model(torch.randn(2, 3, 16, 16, device="cuda"))
model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
dead = []
for step in range(14):
    images = torch.randn(64, 3, 16, 16, device="cuda").contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 10, (64,), device="cuda")
    hidden = model(images)
    loss = F.cross_entropy(hidden, labels)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    dead += [weakref.ref(tensor) for tensor in (images, hidden, loss)]
    show("step", step, loss, hidden)
    del images, labels, hidden, loss
    show("dead", sum(ref() is None for ref in dead))
gc.collect()
torch.cuda.synchronize()
sizes = sum(tensor.nbytes for tensor in [*model.parameters(), *model.buffers()])
show("parameters and buffers", sizes)
show_end(model=model)
moved = nn.Linear(8, 8).cuda()
before = moved.weight.data_ptr()
moved.weight.data.mul_(2)
show("in place", moved.weight.data_ptr() == before, moved.weight)
model.cpu()
show_end(model=model)
