"""A timeout guard by SIGALRM that goes off inside steps, interrupts, and handlers that count."""

# farm: sample
import os
import signal
import threading

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss


class Timeout(Exception):
    pass


def guard(number, frame):
    raise Timeout("took too long")


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.01)


def one_step():
    loss = F.cross_entropy(model(torch.ones(4, 4)), torch.tensor([0, 1, 1, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


for step in range(3):
    show_loss(step, one_step())
saved = {name: value.clone() for name, value in model.state_dict().items()}
print(signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
signal.signal(signal.SIGALRM, guard)
caught = 0
for delay in range(1, 41):
    # At a different place of the loop each time: wherever it goes off, the loop must end.
    signal.setitimer(signal.ITIMER_REAL, 0.0005 * delay)
    try:
        while True:
            one_step()
    except Timeout as error:
        caught += 1
        text = str(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
show("caught", caught, text)


def interrupted(how_often):
    found = 0
    for number in range(how_often):
        timer = threading.Timer(0.001 * number, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            while True:
                one_step()
        except KeyboardInterrupt:
            found += 1
        timer.join()
    return found


show("interrupted", interrupted(15))


class Raising(nn.Module):
    """Raises a signal from within, as a watchdog in C would."""

    def forward(self, x):
        signal.raise_signal(signal.SIGALRM)
        return x


try:
    Raising()(torch.ones(1))
except Timeout as error:
    print("from a module", error)
counted = []
signal.signal(signal.SIGALRM, lambda number, frame: counted.append(number))
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while len(counted) < 50:
    one_step()
signal.setitimer(signal.ITIMER_REAL, 0)
print("handlers ran", len(counted) >= 50)
model.load_state_dict(saved)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(3):
    show_loss(step, one_step())
show_end(model=model)
