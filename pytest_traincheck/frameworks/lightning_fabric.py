"""Lightning Fabric: a loop of the user's own, whose models and steps it wraps. Its version is Lightning's."""

from __future__ import annotations

from .description import Framework, Observation, Wrapper

_NAMES = ("lightning.fabric", "lightning_fabric")

FRAMEWORK = Framework(
    "lightning.fabric",
    wrappers=(Wrapper("_FabricModule", inner="_forward_module"),),
    observations=tuple(
        Observation(f"{name}.fabric:Fabric.{method}", arguments)
        for name in _NAMES
        for method, arguments in (
            ("backward", ("model",)),
            ("setup", ("move_to_device",)),
            ("setup_dataloaders", ("use_distributed_sampler",)),
            ("setup_module", ("move_to_device",)),
            ("setup_optimizers", ()),
        )
    )
    + tuple(Observation(f"{name}.wrappers:_FabricOptimizer.step", ("closure",)) for name in _NAMES),
)
