"""atexit handlers, output that is still buffered, exceptions at the end, and os._exit with a status."""

# farm: exits 5
import atexit
import os
import random
import sys
import threading

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss


class Last:
    def __del__(self):
        print("deleted", torch is not None)


def train(steps):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(steps):
        loss = F.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 1, 0]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show_loss(step, loss)
    return model


@atexit.register
def at_exit():
    print("at exit", threading.active_count())
    show_end(model=train(3))


@atexit.register
def raising():
    raise LookupError("at exit")


torch.manual_seed(0)
sys.argv = [os.fsencode("bytes"), __file__, 3]
print(atexit._ncallbacks() > 0, sys.flags, sys.orig_argv[1:], sys.excepthook is sys.__excepthook__)
print(
    sys.unraisablehook is sys.__unraisablehook__, threading.excepthook.__name__, sys.displayhook is sys.__displayhook__
)
show("model", train(3))
last = Last()
pid = os.fork()
if pid == 0:
    random.seed(1)  # Python draws a new seed in every child
    try:
        show("child", train(2))
        raise SystemExit("words as a status")
    finally:
        print("finally")
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
if os.fork() == 0:
    train(1)
    os._exit(3)
print(os.waitstatus_to_exitcode(os.wait()[1]))
thread = threading.Thread(target=lambda: train(2) and 1 / 0)
thread.start()
thread.join()
sys.exit(5)
