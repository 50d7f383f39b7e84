"""A vision transformer with mixup, label smoothing, stochastic depth, and the transformer layers of torch in eval."""

import torch
import torch.nn.functional as F
from torch import nn
from showing import show, show_end, show_loss


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 4, 4)
        self.first, self.places = nn.Parameter(torch.zeros(1, 1, 16)), nn.Parameter(torch.randn(1, 5, 16) * 0.02)
        layer = nn.TransformerEncoderLayer(16, 2, 32, 0.1, "gelu", batch_first=True, norm_first=False)
        self.body, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(16, 5)

    def forward(self, x, mask=None):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.body(x, src_key_padding_mask=mask)[:, 0])


torch.manual_seed(0)
model = Vit()
optimizer = torch.optim.AdamW(model.parameters(), 3e-3, weight_decay=0.05)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3)
for step in range(5):
    x, y = torch.randn(4, 3, 8, 8), F.one_hot(torch.randint(0, 5, (4,)), 5).float()
    part, order = torch.distributions.Beta(0.4, 0.4).sample(), torch.randperm(4)
    out = model(part * x + (1 - part) * x[order])
    loss = F.cross_entropy(out, part * y + (1 - part) * y[order], label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step(step / 2)
    show_loss(step, loss)
model.eval()
with torch.no_grad():
    mask = torch.zeros(4, 5, dtype=torch.bool)
    mask[:, 3:] = True
    show("eval", model(x), model(x, mask).nan_to_num())
decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 1).eval()
target = torch.randn(2, 4, 8)
show("decoder", decoder(target, target, nn.Transformer.generate_square_subsequent_mask(4), tgt_is_causal=True))
show_end(model=model, decoder=decoder)
