"""A small GPT: tied weights, groups of decay, accumulation, warm-up by hand, evaluation, generation with a cache."""

import math

import torch
import torch.nn as nn
from torch.nn import functional as F
from showing import show, show_end, show_loss


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.heads = heads

    def forward(self, x, cache=None):
        b, t, c = x.size()
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.c_attn(x).split(c, 2))
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = [k, v]
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1, dropout_p=0.1 if self.training else 0.0)
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.ModuleDict({"up": nn.Linear(width, 4 * width), "down": nn.Linear(4 * width, width)})

    def forward(self, x, cache=None):
        x = x + self.attn(self.ln_1(x), cache)
        return x + self.mlp["down"](F.gelu(self.mlp["up"](self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, vocabulary=30, width=16, heads=2, layers=2, length=16):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.h = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.ln_f, self.lm_head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith("c_proj.weight"):
                torch.nn.init.normal_(p, 0.0, 0.02 / math.sqrt(2 * layers))

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            torch.nn.init.normal_(module.weight, 0.0, 0.02)

    def forward(self, ids, targets=None, caches=None):
        start = caches[0][0].size(2) if caches and caches[0] else 0
        x = self.wte(ids) + self.wpe(torch.arange(start, start + ids.size(1)))
        for number, block in enumerate(self.h):
            x = block(x, caches[number] if caches else None)
        logits = self.lm_head(self.ln_f(x))
        loss = (
            None
            if targets is None
            else F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        )
        return logits, loss

    @torch.no_grad()
    def generate(self, ids, new):
        caches = [[] for _ in self.h]
        current = ids
        for _ in range(new):
            logits, _ = self(current, caches=caches)
            current = torch.multinomial(F.softmax(logits[:, -1] / 0.8, -1), 1)
            ids = torch.cat((ids, current), dim=1)
        return ids


torch.manual_seed(1337)
model = GPT()
decay = [p for p in model.parameters() if p.dim() >= 2]
optimizer = torch.optim.AdamW(
    [
        {"params": decay, "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ],
    1e-3,
)
data = torch.randint(0, 30, (400,))
for step in range(5):
    for group in optimizer.param_groups:
        group["lr"] = 1e-3 * min(1, (step + 1) / 3)
    for _ in range(2):
        at = torch.randint(len(data) - 13, (4,))
        x, y = torch.stack([data[i : i + 12] for i in at]), torch.stack([data[i + 1 : i + 13] for i in at])
        with torch.autocast("cpu", torch.bfloat16):
            _, loss = model(x, y)
            loss = loss / 2
        loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    show_loss(step, loss)
    show("norm", norm)
model.eval()
print(model.generate(data[None, :4], 6).tolist(), model.wte.weight is model.lm_head.weight)
show_end(model=model)
