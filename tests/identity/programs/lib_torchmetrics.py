"""Metrics of torchmetrics that hold state as modules, beside a training loop."""

# farm: needs torchmetrics
import torch
import torch.nn.functional as F
import torchmetrics
from torch import nn
from showing import show_end, show_loss

torch.manual_seed(0)
model = nn.Linear(6, 3)
metrics = torchmetrics.MetricCollection(
    {
        "accuracy": torchmetrics.classification.MulticlassAccuracy(3),
        "area": torchmetrics.classification.MulticlassAUROC(3),
        "confusion": torchmetrics.classification.MulticlassConfusionMatrix(3),
    }
)
mean = torchmetrics.MeanMetric()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(5):
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    out = model(x)
    loss = F.cross_entropy(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean.update(loss.detach())
    metrics.update(out.softmax(-1).detach(), y)
    show_loss(step, loss)
print({name: value.tolist() for name, value in metrics.compute().items()}, float(mean.compute()).hex())
metrics.reset()
print(mean.state_dict(), len(repr(metrics)))
show_end(model=model)
