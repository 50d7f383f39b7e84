"""os.fork in the middle of training: children that train, that end with os._exit, that execute another program."""

import os
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss

torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)


def one_step(step):
    loss = F.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 1, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)


for step in range(2):
    one_step(step)
for child in range(3):
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        torch.manual_seed(child)
        one_step(10 + child)
        show("child", model)
        if child == 0:
            os._exit(7)
        if child == 1:
            sys.exit(8)
        os.execv(
            sys.executable,
            [sys.executable, "-c", "import torch; print('executed', torch.ones(2)); raise SystemExit(9)"],
        )
    print("status", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
for step in range(2, 5):
    one_step(step)
done = subprocess.run([sys.executable, "-I", "-c", "print('isolated', flush=True)"], check=True)
done = subprocess.run([sys.executable, "-c", "import os; print(len(os.listdir('/proc/self/fd')))"], capture_output=True)
print(done.returncode, done.stdout, done.stderr)
done = subprocess.run([sys.executable, "-c", "print('without environment')"], env={}, capture_output=True)
print(done)
show_end(model=model)
