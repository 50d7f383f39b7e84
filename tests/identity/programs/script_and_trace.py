"""torch.jit.script and trace of models that train, their code and graphs, saved and loaded."""

import io

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from showing import show, show_end, show_loss


def penalty(x: Tensor, factor: float = 0.1) -> Tensor:
    return factor * x.square().sum()


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix, self.norm = nn.Linear(8, 4), nn.LayerNorm(4)

    def forward(self, x: Tensor, h: Tensor) -> Tensor:
        return torch.tanh(self.norm(self.mix(torch.cat([x, h], -1))))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = Cell(), nn.Linear(4, 3)

    def forward(self, sequence: Tensor) -> Tensor:
        h = torch.zeros_like(sequence[:, 0])
        for index in range(sequence.size(1)):
            h = self.cell(sequence[:, index], h)
        return F.log_softmax(self.out(F.dropout(h, 0.2, self.training)), dim=-1)

    @torch.jit.export
    def predict(self, sequence: Tensor) -> Tensor:
        return self.forward(sequence).argmax(-1)


torch.manual_seed(0)
model = torch.jit.script(Recurrent())
regulariser = torch.jit.script(penalty)
print(model.code, model.predict.code, regulariser.code)
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
for step in range(4):
    loss = F.nll_loss(model(torch.randn(5, 3, 4)), torch.randint(0, 3, (5,))) + regulariser(model.out.weight)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show_loss(step, loss)
file = io.BytesIO()
torch.jit.save(model, file)
loaded = torch.jit.load(io.BytesIO(file.getvalue()))
show("loaded", loaded.predict(torch.ones(2, 3, 4)))
plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
traced = torch.jit.trace(plain, torch.randn(2, 4))
print(traced.graph)
frozen = torch.jit.optimize_for_inference(torch.jit.freeze(traced.eval()))
show("frozen", frozen(torch.ones(2, 4)))
show_end(model=model)
