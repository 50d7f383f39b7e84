"""`backward` (`Tensor.backward` reaches it by attribute lookup) and `torch.autograd.grad`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from ...looks import TERMS
from ..context import Call, ThreadState, innermost, quiet, unobservable
from ..devices import number
from ..graph import is_term, means, reached, terms, weights
from ..theirs import is_theirs
from ..walk import sequence
from .base import ALONE, BACKWARD, Named, observe, watch

if TYPE_CHECKING:
    from ..install import Probe
    from ..recorder import Recorder


WEIGHT = "loss.weight"
"""What a term of a loss is multiplied by; no such measure where that is 1 for all terms."""
LATER_TERMS = "later.terms"
"""How many terms a loss has in a step that is followed; no such measure where one function, which neither adds nor
multiplies, returned it.
"""
_TERMS = 32
"""A loss of more terms is not looked at."""


class Backward(Named):
    """The gradients before and after the outermost backward, and the number that it starts from."""

    trains = True
    part = BACKWARD

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        if recorder.measures.wanted and args:
            value = number(state, args[0])
            if value is not None:
                recorder.measures.take(state, "backward.root", call, value)
                _look_behind(recorder, state, call, args[0])
                _weigh(recorder, state, call, args[0])
        elif recorder.measures.following.wanted and args and recorder.measures.following.loss(state, call, args[0]):
            self.weighed(recorder, state, call, args)

    def weighed(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        """The terms and factors of a loss in a step that is followed."""
        if is_term(args[0].grad_fn):
            recorder.measures.following.one_term(args[0].grad_fn)
        else:
            _count(recorder, state, call, args[0])
            _weigh(recorder, state, call, args[0])

    def before(self, recorder: Recorder, state: ThreadState, args: tuple[Any, ...]) -> None:
        if _outermost():
            if recorder.limit is not None:
                recorder.limit.backward()
            recorder.before_entry(state, ())  # the forward has looked at the names
            recorder.by_hand.backward_begins(state, args[0] if args else None)
            recorder.look(state, innermost(state), gradients=True)

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        if _outermost() and not unobservable():
            if recorder.sketches.wanted:
                recorder.sketches.gradients(state, call)
            with quiet(state):
                recorder.variables.look_at_gradients(recorder.emitter(state, call), full=True)
            recorder.by_hand.backward_ends(state, call)


class Grad(Named):
    """The number whose gradients are asked for: a loss that is used up before any `backward`."""

    def opened(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...]) -> None:
        outputs = args[0] if args else call.kwargs.get("outputs")
        if isinstance(outputs, (list, tuple)) and len(outputs) == 1:
            outputs = outputs[0]
        value = number(state, outputs) if recorder.measures.wanted else None
        if value is not None:
            recorder.measures.take(state, "grad.root", call, value)

    def before(self, recorder: Recorder, state: ThreadState, args: tuple[Any, ...]) -> None:
        if _outermost():
            recorder.by_hand.backward_begins(state, args[0] if args else None)

    def after(self, recorder: Recorder, state: ThreadState, call: Call, args: tuple[Any, ...], result: Any) -> None:
        # What is differentiated once more is part of a loss and no update.
        again = call.kwargs.get("create_graph") or any(item.requires_grad for item in tensors_of(result))
        if _outermost() and not again:
            inputs = args[1] if len(args) > 1 else call.kwargs.get("inputs")
            given = zip(tensors_of(inputs), result, strict=False)
            gradients = {id(tensor): gradient for tensor, gradient in given if gradient is not None}
            recorder.by_hand.backward_ends(state, call, gradients)


def _look_behind(recorder: Recorder, state: ThreadState, call: Call, loss: torch.Tensor) -> None:
    """How many terms a loss has, what is averaged in it, and where its terms send gradients."""
    if TERMS in recorder.measures.not_needed:
        return
    coarse, fine = terms(loss, through_means=False), terms(loss, through_means=True)
    if coarse is None or fine is None:
        return
    take = recorder.measures.take
    take(state, "loss.terms", call, float(len(coarse)))
    take(state, "loss.terms.fine", call, float(len(fine)))
    sizes = means(coarse)
    if sizes:
        take(state, f"loss.means={', '.join(map(str, sizes))}", call)
    sets = reached(fine) if recorder.measures.early else None
    if sets:
        text = "; ".join(f"{leaves} ({elements} elements)" for leaves, elements in sets)
        take(state, f"loss.reach={text}", call)


def _count(recorder: Recorder, state: ThreadState, call: Call, loss: torch.Tensor) -> None:
    """How many terms a loss has: through means, since there are as many then or more."""
    found = None if TERMS in recorder.measures.not_needed else terms(loss, through_means=True)
    if found is not None:
        recorder.measures.take(state, LATER_TERMS, call, float(len(found)))


def _weigh(recorder: Recorder, state: ThreadState, call: Call, loss: torch.Tensor) -> None:
    """What the terms of a loss are multiplied by, unless it is 1 for all of them."""
    if recorder.measures.saved_hooks or unobservable():
        return
    try:
        with quiet(state):
            found = weights(loss) or []
    except RuntimeError as error:
        if is_theirs(error):
            raise
        return  # The graph was freed, or what it was given was written to since: `backward` will say so.
    if len(found) <= _TERMS and any(weight != 1 for weight in found):
        for weight in found:
            recorder.measures.take(state, WEIGHT, call, weight)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """A tensor, or those in a list or tuple."""
    items = [value] if isinstance(value, torch.Tensor) else sequence(value) or ()
    return [item for item in items if isinstance(item, torch.Tensor)]


def _outermost() -> bool:
    return torch._C._current_graph_task_id() == -1


def install(probe: Probe) -> None:
    """Observe both functions of `torch.autograd`."""

    def hooked(*_: Any) -> None:
        if probe.recorder is not None:
            probe.recorder.measures.saved_hooks = True

    def begun(roots: Any, *_: Any, **__: Any) -> None:
        if probe.recorder is not None:
            probe.recorder.backwards.begin(roots)

    # The method beside what it calls, which libraries call as well, but which cannot be observed everywhere.
    watch(probe, torch.autograd.graph.saved_tensors_hooks.__enter__, hooked)
    watch(probe, torch._C._autograd._push_saved_tensors_default_hooks, hooked)
    of_one = getattr(torch._C._autograd.SavedTensor, "register_hooks", None)
    watch(probe, getattr(of_one, "__func__", None), hooked)
    # What both functions end in. Also while they sleep: another thread may wake, and read gradients.
    watch(probe, torch.autograd.graph._engine_run_backward, begun, light=True, when=ALONE)
    observe(probe, torch.autograd.backward, Backward("torch.autograd.backward", "autograd"))
    observe(probe, torch.autograd.grad, Grad("torch.autograd.grad", "autograd"))
