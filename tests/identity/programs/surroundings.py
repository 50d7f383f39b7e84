"""What a program can see of its own process: environment, arguments, paths, threads, handlers, streams."""

import builtins
import gc
import locale
import logging
import os
import resource
import signal
import sys
import threading
import warnings

import torch
import torch.nn.functional as F
from torch import nn
from showing import show_end, show_loss

OURS = ("PYTHONPATH",)


def report():
    print(sorted(name for name in os.environ if name not in OURS and not name.startswith("TRAINCHECK_")))
    print([os.path.basename(argument) for argument in sys.argv], sys.flags)
    print(threading.active_count(), [thread.name for thread in threading.enumerate()])
    print([(s.name, signal.getsignal(s)) for s in signal.Signals if s not in (signal.SIGKILL, signal.SIGSTOP)])
    print(locale.setlocale(locale.LC_ALL), sys.getdefaultencoding(), sys.stdout.encoding, sys.stderr.errors)
    print(len(warnings.filters), [f[:3] for f in warnings.filters], warnings.showwarning.__module__)
    print(gc.isenabled(), gc.get_threshold(), len(gc.callbacks), sys.getrecursionlimit(), sys.getswitchinterval())
    print(logging.root.handlers, logging.root.level, sorted(logging.root.manager.loggerDict)[:5])
    print(
        os.getcwd().endswith("work"),
        os.umask(0o022),
        os.getpriority(os.PRIO_PROCESS, 0),
        resource.getrlimit(resource.RLIMIT_NOFILE),
    )
    print(
        builtins.__import__.__name__,
        builtins.print.__name__,
        sys.breakpointhook.__name__,
        sys.gettrace(),
        sys.getprofile(),
    )
    print(
        torch.get_num_threads(), torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.get_default_dtype()
    )
    print(torch.are_deterministic_algorithms_enabled(), torch.backends.mkldnn.enabled, torch.is_anomaly_enabled())
    print(torch.is_autocast_enabled("cpu"), torch.backends.cuda.matmul.allow_tf32, torch.get_float32_matmul_precision())
    print(len(sys.audit.__name__), sys.stdin.fileno(), sys.stdin.isatty(), sys.getfilesystemencoding(), sys.platform)
    print(
        torch.__file__.rpartition("site-packages")[2], torch.__spec__.name, type(torch.__loader__).__name__, type(torch)
    )
    print(sorted(name for name in sys.modules["__main__"].__dict__ if name.startswith("__")))


report()
torch.manual_seed(0)
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    loss = F.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 1, 0]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
print(sys.stdin.readline(), sys.stdin.read())
report()
show_end(model=model)
