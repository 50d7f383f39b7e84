"""The story of a training under a gradient scaler, which skips some steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from training_story import Training


@dataclass(frozen=True)
class Scaled:
    """A loop under a gradient scaler, which skips the steps of some iterations; it has a scheduler in every iteration,
    or `times` of them, that moves the learning rate by `factor`, or none where a step was skipped.
    """

    skips: Callable[[int, int], bool] = lambda _seed, _iteration: False
    """Whether an iteration overflows, by seed and number."""
    times: Callable[[int], int] = lambda _iteration: 1
    factor: float = 0.5
    guarded: bool = False
    extra: int = -1
    """After this iteration the optimizer steps once more, by itself."""

    def tell(self, t: Training) -> None:
        """The loop in the process `t`."""
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        t.mode(net, True)
        for iteration in range(8):
            t.zero_grad(optimizer)
            t.batch()
            t.forward(net)
            t.loss()
            t.backward(net)
            skipped = self.skips(t.seed, iteration)
            with t.call("torch.amp.GradScaler.step", type="scaler"):
                if not skipped:
                    t.step(optimizer)
            if iteration == self.extra:
                t.step(optimizer)
            with t.call("torch.amp.GradScaler.update", type="scaler"):
                pass
            for _ in range(0 if skipped and self.guarded else self.times(iteration)):
                t.schedule(optimizer, self.factor)
