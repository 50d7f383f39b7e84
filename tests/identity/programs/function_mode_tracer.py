"""A TorchFunctionMode that writes down every call that it sees: name, identity, types and who called."""

# farm: sample
import sys
from collections import Counter

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name
from showing import show_end, show_loss

KNOWN = {F.linear: "F.linear", F.cross_entropy: "F.cross_entropy", torch.Tensor.backward: "backward", F.embedding: "e"}


class Tracer(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        frame = sys._getframe(1)
        self.seen.append(
            (
                getattr(func, "__name__", "?"),
                resolve_name(func),
                KNOWN.get(func),
                tuple(kind.__name__ for kind in types),
                len(args),
                sorted(kwargs or {}),
                frame.f_code.co_filename.rpartition("/")[2],
                frame.f_lineno,
                frame.f_code.co_name,
            )
        )
        return func(*args, **(kwargs or {}))


torch.manual_seed(2)
model = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 6), nn.LayerNorm(6), nn.GELU(), nn.Dropout(0.2), nn.Linear(6, 9))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
tracer = Tracer()
for step in range(4):
    tokens = torch.randint(0, 9, (3, 5))
    with tracer:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    show_loss(step, loss)
    if step == 1:
        for entry in tracer.seen:
            print(entry)
    print(len(tracer.seen), sorted(Counter(entry[0] for entry in tracer.seen).items()))
    tracer.seen.clear()
show_end(model=model)
