"""A timeout guard by SIGALRM that goes off inside steps, interrupts, and handlers that count."""

# farm: sample
import signal

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss


class Timeout(Exception):
    pass


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
signal.signal(signal.SIGINT, signal.default_int_handler)
print(signal.getsignal(signal.SIGALRM))
called = []


def caught_by(kind, handler, how_often):
    """How often the loop was ended by an exception of the kind; the handler raises it at another place each time."""
    signal.signal(signal.SIGALRM, handler)
    found = 0
    for delay in range(1, how_often + 1):
        try:
            # Goes off again should the exception be lost, so that the program ends and the two numbers differ.
            signal.setitimer(signal.ITIMER_REAL, 0.0005 * delay, 0.5)
            while True:
                one_step()
        except kind:
            found += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            # An exception on the way into a `no_grad` of torch's own leaves gradients switched off.
            torch.set_grad_enabled(True)
    return found


def timeout(number, frame):
    called.append(number)
    raise Timeout("took too long")


def interrupt(number, frame):
    called.append(number)
    signal.raise_signal(signal.SIGINT)


show("timeouts", caught_by(Timeout, timeout, 40), len(called))
show("interrupts", caught_by(KeyboardInterrupt, interrupt, 20), len(called))
signal.signal(signal.SIGALRM, timeout)


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
