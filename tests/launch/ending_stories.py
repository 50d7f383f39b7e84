"""Programs that never end by themselves, or in a way of their own, and what they print when they are ended."""

from __future__ import annotations

BEGIN = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
step = 0


def train_step():
    global step
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
    step += 1
    print("step", step, flush=True)


"""

EPOCHS = """\
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(16, 4))
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
with open("log.txt", "w") as log:
    try:
        for epoch in range(100):
            for (inputs,) in DataLoader(data, 4, shuffle=True):
                model(inputs).square().mean().backward()
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                step += 1
                log.write(f"step {step}\\n")
            with torch.no_grad():
                print("evaluated", sum(len(model(inputs)) for (inputs,) in DataLoader(data, 8)))
    finally:
        print("finally", step)
print("not reached")
"""

SWALLOWED = """\
import atexit

atexit.register(print, "at exit")
while True:
    try:
        train_step()
    except:
        print("caught")
"""

CONTINUED = """\
def batches():
    try:
        while True:
            yield 1
    finally:
        print("generator closed")


for batch in batches():
    try:
        train_step()
    except Exception:
        continue
"""

OTHER_STATUS = """\
import sys

try:
    while True:
        train_step()
except BaseException:
    sys.exit(3)
"""

IN_A_THREAD = """\
import threading


def train():
    while True:
        train_step()


thread = threading.Thread(target=train)
thread.start()
thread.join()
print("joined")
model(torch.randn(1, 4))
print("not reached")
"""

GAN = """\
generator = nn.Linear(2, 4)
other = torch.optim.SGD(generator.parameters(), lr=0.1)
while True:
    for _ in range(3):
        train_step()
    other.zero_grad()
    model(generator(torch.randn(8, 2))).mean().backward()
    other.step()
    print("generator", step // 3)
"""

LBFGS = """\
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
inputs = torch.randn(8, 4)


def closure():
    optimizer.zero_grad()
    loss = model(inputs).square().mean()
    loss.backward()
    return loss


while True:
    optimizer.step(closure)
    step += 1
    print("step", step)
"""

SKIPPED = """\
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**60)
while True:
    for _ in range(2):
        with torch.autocast("cpu", torch.float16):
            loss = model(100 * torch.randn(8, 4)).square().mean()
        scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    step += 1
    print("step", step)
"""

BY_HAND = """\
import torch
from torch import nn

model = nn.Linear(4, 2)
step = 0
while True:
    model(torch.randn(8, 4)).square().mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
    step += 1
    print("step", step)
"""

NEVER_STEPS = """\
while True:
    model(torch.randn(8, 4)).square().mean().backward()
    step += 1
"""

SHORT = """\
train_step()
train_step()
print("reached")
"""

RANKS = """\
import os
import torch.distributed as dist

if os.environ.get("SELDOM"):
    # The other rank never comes: a shorter wait for it ends in the same way.
    from _traincheck.probe import meeting

    meeting.PATIENCE_S = 3.0
dist.init_process_group("gloo")
rank = dist.get_rank()
model = nn.parallel.DistributedDataParallel(model)
try:
    while True:
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        if rank == 0 or not os.environ.get("SELDOM") or step % 2:
            optimizer.step()
        step += 1
finally:
    if not os.environ.get("SELDOM"):
        dist.barrier()
        dist.destroy_process_group()
    # In one write: the ranks share a file, and torchrun has Python keep nothing back.
    os.write(1, f"rank {rank} finally {step}\\n".encode())
"""

MEETS_BEHIND = """\
from torch import distributed as dist

dist.init_process_group("gloo")
network, model = model, nn.parallel.DistributedDataParallel(model)
for _ in range(4):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
if dist.get_rank() == 0:
    with torch.no_grad():
        print("evaluated", network(torch.randn(8, 4)).sum().item())
dist.barrier()
dist.destroy_process_group()
"""

TRAINER = """\
import torch
from torch import nn

import tempfile
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

sizes = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, vocab_size=32)
data = [{"input_ids": torch.randint(0, 32, (8,)), "labels": torch.tensor(i % 2)} for i in range(16)]
with tempfile.TemporaryDirectory() as directory:
    arguments = TrainingArguments(
        directory, per_device_train_batch_size=4, gradient_accumulation_steps=2, num_train_epochs=1000,
        use_cpu=True, report_to=[], disable_tqdm=True, eval_strategy="epoch",
    )
    Trainer(BertForSequenceClassification(BertConfig(**sizes)), arguments, train_dataset=data,
            eval_dataset=data).train()
    print("not reached")
"""

LIGHTNING = """\
import torch
from torch import nn

import tempfile
import lightning
from torch.utils.data import DataLoader, TensorDataset


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()

    def validation_step(self, batch, index):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters())
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]


loader = DataLoader(TensorDataset(torch.randn(16, 4)), 4)
with tempfile.TemporaryDirectory() as directory:
    trainer = lightning.Trainer(max_epochs=-1, accelerator="cpu", default_root_dir=directory,
                                enable_progress_bar=False, logger=False)
    trainer.fit(Module(), loader, loader)
    print("not reached")
"""

ACCELERATE = """\
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
loader = DataLoader(TensorDataset(torch.randn(32, 4)), 4, num_workers=1)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
while True:
    for (inputs,) in loader:
        with accelerator.accumulate(model):
            accelerator.backward(model(inputs).square().mean())
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
"""
