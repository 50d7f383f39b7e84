"""What the probe may never do: each script prints the same, and ends the same, with the probe and without it."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from probe_runs import Run
from warm_python import WarmPython

pytestmark = pytest.mark.slow

HEAD = """
import os, signal, sys, time
import torch, torch.nn.functional as F
from torch import nn
torch.manual_seed(0)

def steps(model, count=3, x=None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(count):
        model(torch.ones(2, 4) if x is None else x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [value.double().sum().item().hex() for value in model.parameters()]
"""

STORAGE = """
model = nn.Linear(4, 4)
print(steps(model))
kept = model.weight.detach().clone()
storage = model.weight.untyped_storage()
for size in (0, 8, 60):
    storage.resize_(size)
    torch.optim.SGD(model.parameters(), lr=0.1).zero_grad()
    model.eval().train()
    model.requires_grad_(True)
storage.resize_(64)
model.weight.data.copy_(kept)
print(steps(model))
"""

SWAPPED = """
model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
print(steps(model))
torch.__future__.set_swap_module_params_on_conversion(True)
model.to(torch.float64)
model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()})
model.float()
print(steps(model))
one, two = nn.Parameter(torch.ones(3)), nn.Parameter(torch.zeros(3))
torch.optim.SGD([one, two], lr=1.0)
nn.init.ones_(two)
torch.utils.swap_tensors(one, two)
print(one.tolist(), two.tolist())
"""

DTYPES = """
class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 2)
        names = ["uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn_x2",
                 "bits8", "bits16", "uint4", "int3", "uint1", "quint4x2"]
        for name in names:
            dtype = getattr(torch, name, None)
            if dtype is not None:
                try:
                    whole = torch.arange(16, dtype=torch.uint8).view(dtype)
                except RuntimeError:
                    continue
                self.register_buffer(name, whole)
                self.register_buffer(name + "_part", whole[1:])

    def forward(self, x, extra=None):
        return self.inner(x)

class Raising(dict):
    def keys(self): raise RuntimeError("keys")
    def items(self): raise RuntimeError("items")
    def __getitem__(self, key): raise RuntimeError("item")
    def __len__(self): raise RuntimeError("length")
    def __eq__(self, other): raise RuntimeError("equal")
    __hash__ = None

class Unfriendly:
    def __getattr__(self, name): raise RuntimeError(name)
    @property
    def __class__(self): raise RuntimeError("class")

model = Odd()
print(len(list(model.buffers())) > 10, steps(model))
for extra in (Raising(a=1), Unfriendly(), [Raising()], {"a": Unfriendly()}):
    model(torch.ones(2, 4), extra).sum().backward()
print(model.inner.weight.grad.tolist())
"""

SIGNALS = """
def expired(_, frame):
    # Where torch switches gradients off and on again it is not safe itself: a moment later then.
    while "pytest_traincheck" in frame.f_code.co_filename:
        frame = frame.f_back
    if frame.f_code.co_name in ("_use_grad", "__init__", "__enter__", "__exit__"):
        signal.setitimer(signal.ITIMER_REAL, 0.0002)
        return
    raise TimeoutError("over")

signal.signal(signal.SIGALRM, expired)
model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(30)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
# At its first steps torch imports modules of its own, and swallows what comes up meanwhile.
steps(model)
model(torch.ones(2, 4)).square().mean().backward()
optimizer.step()
caught = 0
for turn in range(60):
    torch.set_grad_enabled(True)  # torch may have been about to do so
    signal.setitimer(signal.ITIMER_REAL, 0.002 + 0.0005 * turn)
    try:
        while True:
            model(torch.ones(2, 4)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    except TimeoutError:
        caught += 1
print(caught, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"))
"""

THREADS = """
import ctypes, threading
main = ctypes.c_ulong(threading.main_thread().ident)
raising = ctypes.pythonapi.PyThreadState_SetAsyncExc

model = nn.Sequential(*[nn.Linear(4, 4) for _ in range(30)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
steps(model)
model(torch.ones(2, 4)).square().mean().backward()
optimizer.step()
caught = 0
for turn in range(60):
    torch.set_grad_enabled(True)  # torch may have been about to do so
    try:
        threading.Timer(0.01 + 0.0005 * turn, raising, (main, ctypes.py_object(TimeoutError))).start()
        while True:
            model(torch.ones(2, 4)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    except TimeoutError:
        caught += 1
print(caught, torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"))
"""

DEPTH = """
model = nn.Linear(4, 4)
for _ in range(240):
    model = nn.Sequential(model)
print(steps(model))

def deepest():
    low, high = 200, 340
    while high - low > 1:
        middle = (low + high) // 2
        nest = nn.Identity()
        for _ in range(middle):
            nest = nn.Sequential(nest)
        try:
            nest(torch.ones(1))
            low = middle
        except RecursionError:
            high = middle
    return low

print(deepest())
"""

DESCRIPTORS = """
import pathlib
model = nn.Linear(4, 4)
print(steps(model))
print(len(os.listdir("/proc/self/fd")))
os.closerange(3, 256)
path = pathlib.Path("mine.txt")
with path.open("w+") as file:
    file.write("mine" * 1000)
    file.flush()
    print(file.fileno(), steps(model, 40))
    print(path.stat().st_size)
sys.argv = [b"script", pathlib.Path("argument"), 3]
sys.stdout.flush()
os._exit(0)
"""

TABLES = """
import functools
HANDLED = {}
NAMES = []

def implements(function):
    return lambda handler: HANDLED.setdefault(function, handler)

@implements(F.linear)
def _(x, weight, bias=None):
    NAMES.append("linear")
    return F.linear(x.to(torch.bfloat16), weight.to(torch.bfloat16), None if bias is None else bias.to(torch.bfloat16))

@implements(torch.nn.functional.cross_entropy)
def _(*args, **kwargs):
    NAMES.append("cross_entropy")
    return F.cross_entropy(*args, **kwargs) * 2

@implements(torch.Tensor.softmax)
def _(x, *args, **kwargs):
    NAMES.append("softmax")
    return torch.zeros(())

class Tracer(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        frame = sys._getframe(1)
        self.calls.append((getattr(func, "__name__", "?"), func in {F.linear, torch.matmul}, func is F.linear,
                           frame.f_code.co_name, frame.f_lineno))
        handler = HANDLED.get(func)
        return handler(*args, **(kwargs or {})) if handler is not None else func(*args, **(kwargs or {}))

model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3))
tracer = Tracer()
with tracer:
    loss = F.cross_entropy(model(torch.ones(2, 4)).float(), torch.zeros(2, dtype=torch.long))
    loss.backward()
    x = torch.ones(2, 2)
    print(x.softmax(-1).tolist(), (x @ x).tolist(), torch.matmul(x, x).tolist())
print(loss.item().hex(), NAMES, len(tracer.calls))
for call in tracer.calls:
    print(call)
print(torch.overrides.resolve_name(F.linear), torch.overrides.resolve_name(torch.Tensor.matmul))
print(hash(torch.matmul) == hash(torch._C._VariableFunctions.matmul), type(F.linear), type(torch.Tensor.softmax))
"""

DISTRIBUTED = """
import inspect, warnings
import torch.distributed.optim
from torch.distributed.optim import ZeroRedundancyOptimizer

def scripted():
    scale = 3

    @torch.jit.script
    class Held:
        def __init__(self, x: torch.Tensor):
            self.x = x
        def twice(self) -> torch.Tensor:
            return F.dropout(self.x, 0.0) * 2
    return Held(torch.ones(2)).twice().tolist()

print(scripted(), ZeroRedundancyOptimizer.__name__)

class Depth(nn.Module):
    def forward(self, x):
        print(len(inspect.stack()), [frame.function for frame in inspect.stack()][:4])
        return x

nn.Sequential(Depth(), nn.Identity())(torch.ones(1))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    F.mse_loss(torch.ones(2, 1), torch.ones(2))
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scheduler.step()
print([(os.path.basename(item.filename), item.lineno, item.category.__name__) for item in caught])
"""

REPLACED = """
import itertools, json, time

class Refusing:
    def default(self, value):
        raise TypeError(value)

itertools.count = lambda start=0, step=1: iter(range(start, start + 3))
json.dumps = lambda value: Refusing().default(value)
time.time = time.time_ns = time.monotonic = lambda: 1_000_000_000
print(steps(nn.Linear(4, 4)), next(itertools.count(5)), time.time())
"""

ASKED = """
from torch.utils.data import DataLoader
asked = []

class Batches:
    drawn = None

    @property
    def sampler(self):
        asked.append("sampler")
        self.drawn = torch.randperm(6) if self.drawn is None else self.drawn
        return self.drawn

    @property
    def batch_size(self):
        asked.append("batch_size")

    def __iter__(self):
        yield from ([0, 1], [2, 3])

class Model(nn.Linear):
    def parameters(self, recurse=True):
        asked.append("parameters")
        torch.rand(1)
        return super().parameters(recurse)

class Result:
    def __init__(self, model, count, loss):
        self.loss = loss

def evaluate(model, count):
    with torch.no_grad():
        loss = model(torch.ones(count, 4)).sum().item()
    return Result(**locals())

model = Model(4, 4)
loader = DataLoader(torch.arange(24.0).view(6, 4), batch_sampler=Batches())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
asked.clear()
for _ in range(3):
    for batch in loader:
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(evaluate(model, 2).loss, torch.clone(input=model.weight).sum().item(), torch.rand(1).item())
print(asked)
"""

SCRIPTS = {
    "storage smaller than its tensors": (STORAGE, "Memory", "a storage that is freed, or smaller than its tensors"),
    "parameters that are swapped": (SWAPPED, "Memory", "`swap_tensors`, and conversions that use it"),
    "dtypes and objects that resist": (DTYPES, "Exceptions", "buffers of rare dtypes, arguments whose methods raise"),
    "a timeout guard": (SIGNALS, "Signals", "a SIGALRM handler that raises, 60 times while the probe may be at work"),
    "a timeout of another thread": (THREADS, "Signals", "another thread raises `TimeoutError` in this one, 60 times"),
    "deep nesting": (DEPTH, "Frames", "240 modules in each other, and the deepest nesting that Python allows"),
    "descriptors closed": (DESCRIPTORS, "Descriptors", "`os.closerange`, then files; bytes in `sys.argv`; `os._exit`"),
    "tables of functions": (TABLES, "Functions", "handlers in tables, a mode that notes functions and frames"),
    "functions of the standard library replaced": (
        REPLACED,
        "Functions",
        "`itertools`, `json.dumps` and clocks that a program replaces",
    ),
    "what is asked": (
        ASKED,
        "Functions",
        "properties of samplers and a `parameters` that draw, `locals()` in an evaluation",
    ),
    "frames of callers": (DISTRIBUTED, "Frames", "`torch.jit.script` of a class, `inspect.stack`, `stacklevel`"),
}
"""Script, and its row of `docs/faults.md`."""

COLD = {"deep nesting", "frames of callers"}
"""Scripts that look at the frames below their own, of which a warm Python has more."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.fault(
                area=area, tried=tried, happens="output, warnings and exit status are those of a run without the probe"
            ),
        )
        for name, (_, area, tried) in SCRIPTS.items()
    ],
)
def test_nothing_is_disturbed(run: Run, warm_python: WarmPython, name: str) -> None:
    script = HEAD + textwrap.dedent(SCRIPTS[name][0])
    plain, observed = run(script, probe=False, warm=None if name in COLD else warm_python), run(script)
    assert plain.stdout
    assert observed.stdout == plain.stdout
    assert observed.stderr == plain.stderr
    for trace in observed.traces:
        assert trace.meta["probe_errors"] == []
        assert trace.meta["lost_events"] == 0
        assert trace.meta["finished"]
        assert trace.meta["unobserved"] == {}


MANY = """
model = nn.Sequential(*[nn.Linear(1, 1, bias=False) for _ in range(6667)])
print(steps(model, x=torch.ones(2, 1)))
"""


@pytest.mark.sweep
def test_sketches_of_many_modules_end_and_that_is_said(run: Any) -> None:
    """However many modules a model has, what is spent on them is bounded; the model itself is sketched to the end."""
    (trace,) = run(HEAD + MANY).traces
    assert trace.meta["left_out"]["sketches of calls within models, which would take too long"] > 0
    assert trace.meta["probe_errors"] == []
