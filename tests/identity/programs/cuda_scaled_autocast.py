"""Half precision on a GPU: autocast, a scaler of gradients that leaves a step out, clipping, and warnings of waits."""

# farm: cuda

import torch
import torch.nn.functional as F
from showing import show, show_end, show_loss
from torch import nn

torch.use_deterministic_algorithms(True)
torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(64, 300),
    nn.GELU(),
    nn.LayerNorm(300),
    nn.Linear(300, 300),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Linear(300, 10),
).cuda()
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cuda", init_scale=2.0**10)
losses = []
for step in range(12):
    inputs, targets = torch.randn(32, 64, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
    with torch.autocast("cuda", torch.float16):
        loss = F.cross_entropy(model(inputs), targets)
    optimizer.zero_grad()
    scaler.scale(loss * (float("inf") if step == 5 else 1)).backward()
    scaler.unscale_(optimizer)
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.detach())
for step, loss in enumerate(losses):
    show_loss(step, loss)
show("scale", scaler.get_scale(), norm)
show_end(model=model)
show("generator of the GPU", torch.cuda.get_rng_state())

# The program waits for its GPU nowhere in here, and torch would raise if anybody did.
torch.cuda.set_sync_debug_mode("error")
for _ in range(12):
    optimizer.zero_grad()
    loss = F.mse_loss(model(inputs), torch.ones(32, 10, device="cuda"))
    loss.backward()
    optimizer.step()
with torch.no_grad():
    model.eval()
    left = model(inputs)
show("mode", torch.cuda.get_sync_debug_mode())
torch.cuda.set_sync_debug_mode("default")
show("left", left, loss)
show_end(model=model)
