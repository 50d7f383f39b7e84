"""Ranks with other numbers of batches, as within `Join` of torch's."""

from __future__ import annotations

from dataclasses import dataclass

from trace_builder import NONZERO, digest_of, tensor
from training_story import BACKWARD, Training

REDUCE = "torch.distributed.all_reduce"


@dataclass(frozen=True)
class Uneven:
    """Ranks that take other numbers of steps in each epoch, and exchange their gradients in each; those that have no
    more data answer what the others send, which nobody sees, and get the parameters of one that had most.
    """

    batches: tuple[int, ...] = (3, 2)
    epochs: int = 2
    waits: bool = True
    apart_since: int = -1
    """The epoch from which on the last rank uses its own gradients."""
    without: tuple[int, int] = (-1, -1)
    """Epoch and batch in which the last rank does not take part in the exchange."""

    def __call__(self, t: Training) -> None:
        net = t.model()
        parameters = list(net.parameters.values())
        optimizer = t.adamw(parameters)
        last = t.rank == len(self.batches) - 1
        t.mode(net, True)
        for epoch in range(self.epochs):
            alone = last and 0 <= self.apart_since <= epoch
            for batch in range(self.batches[t.rank]):
                t.zero_grad(optimizer)
                t.batch()
                t.forward(net)
                t.loss()
                with t.call(BACKWARD, type="autograd", args={"tensors": tensor()}, line=13):
                    if not (last and self.without == (epoch, batch)):
                        group = {"tuple": list(range(len(self.batches)))}
                        with t.call(REDUCE, type="collective", args={"tensor": tensor(12), "group": group}, line=13):
                            pass
                    for parameter in parameters:
                        mine = (t.seed, epoch, batch, parameter.name, t.rank if alone else 0)
                        t.change(parameter.gradient, NONZERO, digest_of(*mine), 1.0)
                t.step(optimizer)
            if self.waits:
                for parameter in parameters if self.batches[t.rank] < max(self.batches) and not alone else ():
                    digest = t.digest(parameter.variable)
                    for batch in range(self.batches[t.rank], max(self.batches)):
                        digest = digest_of(digest, digest_of(t.seed, epoch, batch, parameter.name, 0))
                    t.change(parameter.variable, NONZERO, digest)
                t.measure("ranks.waited")
            t.mode(net, False)
            with t.context(grad=False):
                t.forward(net, line="evaluate")
            t.mode(net, True)
