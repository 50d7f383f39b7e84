"""Small models of timm, with its optimizers, schedulers, losses, mixing of samples and average of weights."""

# farm: needs timm
import sys
import types

import torch
from torch import nn

if "torchvision" not in sys.modules:
    # What timm takes from torchvision when it is imported. There is no build of it for this torch without CUDA.
    class Anything(type):
        def __getattr__(cls, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return name

    class Absent(nn.Module, metaclass=Anything):
        pass

    def absent(name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent

    for name in ("", ".ops", ".ops.misc", ".transforms", ".transforms.functional", ".datasets", ".models"):
        module = types.ModuleType(f"torchvision{name}")
        module.__getattr__ = absent
        module.__path__ = []
        sys.modules[module.__name__] = module
        parent, _, child = module.__name__.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)

import timm
from timm.layers import resample_abs_pos_embed
from timm.loss import LabelSmoothingCrossEntropy, SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3
from showing import show, show_end, show_loss

torch.manual_seed(0)
kinds = {
    "vit_tiny_patch16_224": {"img_size": 32, "embed_dim": 24, "depth": 2, "num_heads": 2, "drop_path_rate": 0.1},
    "resnet10t": {},
}
for name, extra in kinds.items():
    model = timm.create_model(name, pretrained=False, num_classes=5, **extra)
    optimizer = create_optimizer_v2(model, "lamb" if "vit" in name else "adamw", lr=1e-3, weight_decay=0.05)
    schedule = CosineLRScheduler(optimizer, 6, warmup_t=2)
    average = ModelEmaV3(model, decay=0.9)
    for step in range(3):
        x, y = torch.randn(2, 3, 32, 32), torch.randint(0, 5, (2,))
        loss = LabelSmoothingCrossEntropy(0.1)(model(x), y)
        loss = loss + SoftTargetCrossEntropy()(model(x), torch.full((2, 5), 0.2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step_update(step)
        schedule.step(step)
        average.update(model)
        show_loss(step, loss)
    print(name, [float(group["lr"]).hex() for group in optimizer.param_groups], len(optimizer.param_groups))
    show_end(model=model, average=average.module)
show("positions", resample_abs_pos_embed(torch.ones(1, 5, 8), (4, 4)))
