"""Training gives the same bits with and without the probe, and the probe fails nowhere on the way."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from warm_python import WarmPython

HEAD = """
import copy, hashlib
import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed(3)

def show(label, *values):
    digest = hashlib.sha256()
    for value in values:
        digest.update(value.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    print(label, digest.hexdigest())

def show_model(model):
    show("parameters", *model.state_dict().values())
    show("next random numbers", torch.rand(4))
"""

TRANSFORMER = """
layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
model = nn.TransformerEncoder(layer, 2)
head = nn.Linear(32, 5)
optimizer = torch.optim.AdamW([*model.parameters(), *head.parameters()], lr=1e-3)
for step in range(8):
    optimizer.zero_grad()
    x, y = torch.randn(4, 6, 32), torch.randint(0, 5, (4, 6))
    loss = F.cross_entropy(head(model(x)).flatten(0, 1), y.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
model.eval()
padding = torch.zeros(4, 6, dtype=torch.bool)
padding[:, 4:] = True
with torch.no_grad():
    show("eval", model(torch.randn(4, 6, 32)))
    show("padded", model(torch.randn(4, 6, 32), src_key_padding_mask=padding).nan_to_num())
with torch.inference_mode():
    show("inference", model(torch.randn(4, 6, 32)))
show_model(model)
"""

COMPILED = """
from torch._dynamo.utils import counters
import torch._dynamo

graphs = []
from torch._dynamo.backends.registry import lookup_backend

def counting(module, inputs, **options):
    graphs.append(len(list(module.graph.nodes)))
    return lookup_backend("aot_eager")(module, inputs, **options)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop = nn.Linear(16, 32), nn.Linear(32, 4), nn.Dropout(0.2)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x):
        h = F.gelu(self.a(x)).unsqueeze(1)
        h = h + self.attention(h, h, h)[0]
        h = h.squeeze(1) @ torch.eye(32)
        if h.sum() > 1e9:
            h = h * 2
        return F.log_softmax(self.b(self.drop(h)), dim=-1)

net = Net()
BACKEND
@torch.compile(backend=counting)
def penalty(model):
    return sum(F.dropout(p, 0.1).square().sum() for p in model.parameters()) * 1e-3

optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for step in range(8):
    optimizer.zero_grad()
    x, y = torch.randn(8, 16), torch.randint(0, 4, (8,))
    loss = F.nll_loss(model(x), y) + penalty(net)
    loss.backward()
    optimizer.step()
model.eval()
with torch.no_grad():
    show("eval", model(torch.randn(8, 16)))
print("graphs", graphs)
print("counters", sorted(counters["stats"].items()), sorted(counters["graph_break"].items()))
show_model(net)
"""

TIED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.body = nn.Sequential(nn.Dropout(0.3), nn.Linear(16, 16), nn.BatchNorm1d(16), nn.Tanh())
        self.out = nn.Linear(16, 20, bias=False)
        self.out.weight = self.embed.weight

    def forward(self, tokens):
        return self.out(self.body(self.embed(tokens)))

net = Net()
average = torch.optim.swa_utils.AveragedModel(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, nesterov=True)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8)
for step in range(8):
    tokens = torch.randint(0, 20, (12,))
    loss = F.cross_entropy(net(tokens), tokens)
    loss.backward()
    optimizer.step()
    schedule.step()
    average.update_parameters(net)
    optimizer.zero_grad(set_to_none=False)
assert net.out.weight is net.embed.weight
assert all("momentum_buffer" in state for state in optimizer.state.values())
show_model(net)
show("average", *average.state_dict().values())
"""

LBFGS = """
model = nn.LSTM(4, 8, batch_first=True)
head = nn.Linear(8, 1)
parameters = [*model.parameters(), *head.parameters()]
optimizer = torch.optim.LBFGS(parameters, lr=0.5, max_iter=4, line_search_fn="strong_wolfe")
x, y = torch.randn(6, 5, 4), torch.randn(6, 5, 1)

def closure():
    optimizer.zero_grad()
    loss = F.mse_loss(head(model(x)[0]), y)
    loss.backward()
    return loss

for step in range(8):
    optimizer.step(closure)
show_model(model)
show_model(head)
"""

PRECISION = """
model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(4 * 36, 3))
model = model.to(memory_format=torch.channels_last)
optimizer = torch.optim.Adadelta(model.parameters())
scaler = torch.amp.GradScaler("cpu")
torch.use_deterministic_algorithms(True)
for step in range(8):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(torch.randn(5, 1, 8, 8)), torch.randint(0, 3, (5,)))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_(model.parameters(), 0.1)
    scaler.step(optimizer)
    scaler.update()
print(model[0].weight.is_contiguous(memory_format=torch.channels_last))
show_model(model)
"""

CHECKPOINTED = """
from torch.utils.checkpoint import checkpoint

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.GELU()) for _ in range(3))

    def forward(self, x):
        for index, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=index == 1)
        return x

net = Net()
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-2)
for step in range(8):
    with torch.autograd.set_detect_anomaly(step == 2):
        loss = net(torch.randn(4, 8, requires_grad=True)).square().mean()
        loss.backward()
    optimizer.step()
    net.zero_grad()
show_model(net)
"""

LOADED = """
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        return {"x": torch.randn(6) + index, "y": index % 3}

model = nn.Linear(6, 3)
optimizer = torch.optim.Adam(model.parameters())
for batch in DataLoader(Numbers(), batch_size=4, shuffle=True, num_workers=2):
    optimizer.zero_grad()
    F.cross_entropy(model(batch["x"]), batch["y"]).backward()
    optimizer.step()
show_model(model)
"""

FUNCTIONAL = """
from torch.func import functional_call, grad, vmap

model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def loss_of(parameters, x, y):
    return F.mse_loss(functional_call(model, parameters, (x,)), y)

for step in range(8):
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    x, y = torch.randn(9, 5), torch.randn(9, 1)
    each = vmap(grad(loss_of), in_dims=(None, 0, 0))(parameters, x, y)
    for name, value in model.named_parameters():
        value.grad = each[name].mean(0)
    optimizer.step()
    optimizer.zero_grad()
with torch.device("meta"):
    nn.Linear(3, 3)(torch.empty(2, 3))
scripted = torch.jit.script(nn.Sequential(nn.Linear(5, 2), nn.Dropout(0.1)))
show("scripted", scripted(torch.randn(3, 5)))
traced = torch.jit.trace(model, torch.randn(3, 5))
show("traced", traced(torch.randn(3, 5)))
show("exported", torch.export.export(model, (torch.randn(3, 5),)).module()(torch.randn(3, 5)))
show("symbolic", torch.fx.symbolic_trace(model)(torch.randn(3, 5)))
show_model(model)
"""

MEASURED = """
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset
import numpy as np
import random

np.random.seed(3)
random.seed(3)

class Text(Dataset):
    def __init__(self):
        self.noise = np.random.default_rng(5)

    def __len__(self):
        return 24

    def __getitem__(self, index):
        swapped = int(self.noise.integers(20)) + random.randrange(2) + int(torch.randint(0, 3, ()))
        return (torch.randperm(25)[:8].clone() + swapped) % 25, index

class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(25, 16), nn.Embedding(64, 16)
        block = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.1), nn.GELU())
        self.blocks = nn.ModuleList(copy.deepcopy(block) for _ in range(2))
        self.out = nn.Linear(16, 25)
        self.apply(self.begin)

    def begin(self, module):
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        length = tokens.shape[1]
        hidden = self.words(tokens) + self.positions(torch.arange(length))
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        scores = (hidden @ hidden.transpose(1, 2)).masked_fill(future, float("-inf"))
        scores.masked_fill_(future, -1e9)
        hidden = torch.masked_fill(F.dropout(scores.softmax(-1), 0.1, self.training), future, 0.0) @ hidden.clone()
        heads = hidden.unsqueeze(1)
        hidden = F.scaled_dot_product_attention(heads, heads, heads, attn_mask=~future).squeeze(1)
        for block in self.blocks:
            hidden = checkpoint(block, hidden, use_reentrant=False)
        return self.out(hidden)

    @torch.no_grad()
    def generate(self, tokens, max_new_tokens):
        for _ in range(max_new_tokens):
            choices = self(tokens)[:, -1].softmax(-1)
            tokens = torch.cat([tokens, torch.multinomial(choices, 1)], dim=1)
        return tokens

net = Decoder()
teacher = copy.deepcopy(net)
shadow = {name: torch.clone(value.detach()) for name, value in net.named_parameters()}
start = {name: copy.deepcopy(value.data) for name, value in net.named_parameters()}
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
loader = DataLoader(Text(), batch_size=4, shuffle=True, num_workers=2)
steps = 0
while steps < 12:
    for tokens, _ in loader:
        optimizer.zero_grad()
        logits = net(tokens)
        every = F.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
        mimic = F.kl_div(F.log_softmax(logits, -1), teacher(tokens).softmax(-1).detach(), reduction="batchmean")
        (every.sum() / every.numel() + 0.1 * mimic).backward()
        optimizer.step()
        steps += 1
        with torch.no_grad():
            for name, value in net.named_parameters():
                shadow[name].lerp_(value, 0.1)
        if steps == 5:
            state = copy.deepcopy(optimizer.state_dict())
            optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
            optimizer.load_state_dict(state)
net.eval()
print(net.generate(tokens[:2], max_new_tokens=5).tolist())

def write(model, tokens, limit=3):
    for _ in range(limit):
        with torch.no_grad():
            best = model(tokens)[:, -1].topk(3).values.sort(dim=1, descending=True).values
            chosen = model(tokens)[:, -1].argmax(-1) + best.cumsum(1).max(1).indices
        tokens = torch.cat([tokens, chosen.clamp(max=24)[:, None]], 1)[:, -8:]
    return tokens

for limit in (2, 3):
    print(write(net, tokens[:2, :4], limit).tolist())
print(np.random.rand(), random.random())
show("shadow", *shadow.values())
show("start", *start.values())
show_model(net)
"""

PIPELINES: dict[str, str] = {
    "transformer": TRANSFORMER,
    "compiled wrapper": COMPILED.replace("BACKEND", "model = torch.compile(net, backend=counting)"),
    "compiled in place": COMPILED.replace("BACKEND", "model = net; net.compile(backend=counting)"),
    "dropout and tied weights": TIED,
    "lbfgs": LBFGS,
    "reduced precision": PRECISION,
    "checkpointed": CHECKPOINTED,
    "loader workers": LOADED,
    "functional": FUNCTIONAL,
    "measured": MEASURED,
}

ALWAYS = {"transformer", "compiled wrapper", "dropout and tied weights", "lbfgs", "loader workers", "measured"}
"""Each kind of thing is in these, or in the sample of `tests/identity`; the others are for the sweep."""


@pytest.mark.slow
@pytest.mark.fault(
    area="Results", tried="training: {name}", happens="losses, parameters and random states equal to the last bit"
)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in ALWAYS else pytest.mark.sweep) for name in PIPELINES]
)
def test_training_is_bit_identical(run: Any, warm_python: WarmPython, name: str) -> None:
    script = HEAD + textwrap.dedent(PIPELINES[name])
    plain, observed = run(script, probe=False, warm=warm_python), run(script)
    assert "parameters" in plain.stdout
    assert observed.stdout == plain.stdout
    for trace in observed.traces:
        assert trace.meta["probe_errors"] == []
        assert trace.meta["lost_events"] == 0
        assert trace.meta["finished"]
        assert trace.meta["events"] == len(trace.rows)
    main = max(observed.traces, key=lambda trace: len(trace.rows))
    assert len([call for call in main.calls if call.type == "optimizer"]) == (12 if name == "measured" else 8)


DDP = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
net = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Dropout(0.1), nn.Linear(12, 2))
model = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
torch.manual_seed(100 + dist.get_rank())
for step in range(8):
    optimizer.zero_grad()
    F.cross_entropy(model(torch.randn(4, 6)), torch.randint(0, 2, (4,))).backward()
    optimizer.step()
total = torch.ones(3)
dist.all_reduce(total)
if dist.get_rank() == 0:
    show_model(net)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_two_ranks_are_bit_identical(run: Any) -> None:
    script = HEAD + DDP
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    plain, observed = run(script, probe=False, launcher=launcher), run(script, launcher=launcher)
    assert "parameters" in plain.stdout
    assert observed.stdout == plain.stdout
    ranks = [trace for trace in observed.traces if trace.called("torch.optim.AdamW.step")]
    assert sorted(trace.meta["rank"] for trace in ranks) == [0, 1]
    first, second = ranks
    assert first.meta["world_size"] == 2
    assert not any(trace.meta["probe_errors"] for trace in observed.traces)
    # Gradients and parameters are equal across ranks, and the digests say so; the batches are not.
    for kind in ("gradient", "parameter"):
        left, right = ([(item.name, item.digest) for item in rank.changed(kind)] for rank in (first, second))
        assert left == right
        assert len(left) > 8 * 4
    assert first.called("torch.distributed.all_reduce")[0].args["group"] == {"tuple": [0, 1]}
    wrapper, inner = (
        first.called("torch.nn.parallel.DistributedDataParallel")[0],
        first.called("torch.nn.Sequential")[0],
    )
    assert not wrapper.entry
    assert inner.entry
    assert inner.parent == wrapper.seq
    assert {item.name for item in first.changed("parameter")} == {"0.weight", "0.bias", "3.weight", "3.bias"}
