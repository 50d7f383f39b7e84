"""A loop with accelerate: bf16, accumulation, clipping, checkpoints, schedulers, empty weights."""

# farm: needs accelerate
import os

import torch
import torch.nn.functional as F
from accelerate import Accelerator, init_empty_weights
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from showing import show, show_end, show_loss

set_seed(5)
accelerator = Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2, project_dir="project")
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.1), nn.Linear(12, 3))
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)
loader = DataLoader(TensorDataset(torch.randn(32, 6), torch.randint(0, 3, (32,))), 4, shuffle=True)
model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
for step, (x, y) in enumerate(loader):
    with accelerator.accumulate(model):
        loss = F.cross_entropy(model(x), y)
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    show_loss(step, loss)
    print(accelerator.sync_gradients, optimizer.step_was_skipped, schedule.get_last_lr()[0].hex())
accelerator.save_state("state")
before = accelerator.unwrap_model(model).state_dict()["0.weight"].clone()
with torch.no_grad():
    accelerator.unwrap_model(model)[0].weight.zero_()
accelerator.load_state("state")
show("restored", torch.equal(before, model[0].weight), sorted(os.listdir("state")))
show("gathered", accelerator.gather(torch.ones(2)), accelerator.reduce(torch.ones(2)))
with init_empty_weights():
    empty = nn.Linear(1000, 1000)
print(empty.weight.device, type(model).__name__, type(optimizer).__name__)
os.remove("state/random_states_0.pkl")
show_end(model=model)
