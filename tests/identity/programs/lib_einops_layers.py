"""einops: rearranging in functions and layers, with its own dispatch on the type of tensors."""

# farm: needs einops
import einops
import torch
import torch.nn.functional as F
from einops.layers.torch import EinMix, Rearrange, Reduce
from torch import nn
from showing import show, show_end, show_loss


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
        self.embed, self.tokens = (
            nn.Linear(48, 16),
            EinMix("b t c -> b u c", weight_shape="t u", bias_shape="u", t=4, u=4),
        )
        self.pool, self.out = Reduce("b t c -> b c", "mean"), nn.Linear(16, 3)

    def forward(self, x):
        h = self.embed(self.patches(x))
        h = h + self.tokens(F.layer_norm(h, (16,)))
        q, k = einops.rearrange(h, "b t (two n d) -> two b n t d", two=2, n=2)
        scores = einops.einsum(q, k, "b n i d, b n j d -> b n i j").softmax(-1)
        return self.out(self.pool(h) + einops.reduce(scores, "b n i j -> b ()", "sum"))


torch.manual_seed(0)
model = Mixer()
optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
for step in range(4):
    loss = F.cross_entropy(model(torch.randn(2, 3, 8, 8)), torch.randint(0, 3, (2,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
packed, shapes = einops.pack([torch.ones(2, 3), torch.ones(2, 4, 3)], "b * c")
show("packed", packed, [tuple(shape) for shape in shapes], einops.repeat(torch.ones(2), "a -> a b", b=3))
scripted = torch.jit.script(nn.Sequential(Rearrange("b c h w -> b (c h w)"), nn.Linear(48, 2)))
show("scripted", scripted(torch.ones(1, 3, 4, 4)))
show_end(model=model)
