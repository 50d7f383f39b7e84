"""torchao's tensor subclasses: int8 weights only, dynamic quantisation, and training with quantised weights."""

# farm: needs torchao
import torch
import torch.nn.functional as F
from torch import nn
from torchao.quantization import Int8DynamicActivationInt8WeightConfig, Int8WeightOnlyConfig, quantize_
from showing import show, show_end, show_loss


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))


for config in (Int8WeightOnlyConfig(), Int8DynamicActivationInt8WeightConfig()):
    model = net()
    quantize_(model, config, filter_fn=lambda module, name: isinstance(module, nn.Linear) and name != "4")
    print([type(p).__name__ for p in model.parameters()], type(model[0].weight.data).__name__)
    head = model[4]
    optimizer = torch.optim.SGD(head.parameters(), 0.1)
    for p in list(model[0].parameters()) + list(model[2].parameters()):
        p.requires_grad_(False)
    for step in range(4):
        loss = F.cross_entropy(model(torch.randn(5, 32)), torch.randint(0, 4, (5,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show_loss(step, loss)
    with torch.no_grad():
        show("eval", model.eval()(torch.ones(2, 32)), model[0].weight.dequantize())
    show("head", *head.parameters())
    print(len(repr(model)), model[0])
try:
    from torchao.quantization.qat import IntxFakeQuantizeConfig, QATConfig

    model = net()
    fake = IntxFakeQuantizeConfig(torch.int8, group_size=32)
    quantize_(model, QATConfig(weight_config=fake, step="prepare"))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for step in range(4):
        loss = F.cross_entropy(model(torch.randn(5, 32)), torch.randint(0, 4, (5,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show_loss(step, loss)
    show_end(model=model)
except ImportError as error:
    print("no fake quantisation:", error)
try:
    from torchao.optim import AdamW8bit

    model = net()
    optimizer = AdamW8bit(model.parameters(), 1e-2)
    for step in range(3):
        loss = F.cross_entropy(model(torch.randn(5, 32)), torch.randint(0, 4, (5,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        show_loss(step, loss)
    show_end(model=model)
except Exception as error:
    print("no eight-bit optimizer:", type(error).__name__)
