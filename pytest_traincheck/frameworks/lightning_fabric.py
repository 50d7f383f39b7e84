"""Lightning Fabric: a loop of the user's own, whose models and steps it wraps. Its version is Lightning's."""

from __future__ import annotations

from .description import Framework, Wrapper

FRAMEWORK = Framework("lightning.fabric", wrappers=(Wrapper("_FabricModule", inner="_forward_module"),))
