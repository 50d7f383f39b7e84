"""The first step of a program as a tool wants it that is given one batch: model, inputs, loss, optimizer.

The loss of a script is whatever it computes between the model's output and `backward`. It is recorded as the calls of
torch that lead there, and played again on other outputs: the `loss_fn` that a user would have written.
"""

import inspect

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map


class Tape(TorchFunctionMode):
    """Every call of torch after the first call of a model, until the loss is known."""

    def __init__(self):
        super().__init__()
        self.entries = []
        self.loss = None

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if any(isinstance(each, torch.Tensor) for each in tree_flatten(result)[0]):
            self.entries.append((torch.is_grad_enabled(), func, args, kwargs or {}, result))
        return result

    def play(self, old, new):
        """The loss that belongs to another output of the model. What depends on parameters is computed anew as well."""
        now = dict(zip(map(id, tensors_of(old)), tensors_of(new), strict=True))
        kept = set(now)
        for grad, func, args, kwargs, result in self.entries:
            leaves = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
            if not any(id(each) in now or (each.is_leaf and each.requires_grad) for each in leaves):
                continue
            again, named = tree_map(lambda each: now.get(id(each), each), (args, kwargs))
            with torch.set_grad_enabled(grad):
                made = func(*again, **named)
            pairs = zip(tensors_of(result), tensors_of(made), strict=True)
            now.update((id(one), other) for one, other in pairs if id(one) not in kept)
        return now[id(self.loss)]


def tensors_of(output):
    """The tensors of an output; of one that is neither a tensor, sequence nor dictionary, those in its attributes."""
    if hasattr(output, "__dict__") and not isinstance(output, (torch.Tensor, dict)):
        output = vars(output)
    leaves = tree_flatten(dict(output) if isinstance(output, dict) else output)[0]
    return [each for each in leaves if isinstance(each, torch.Tensor)]


class Step:
    """One call of a model, copied before it; afterwards its output, and the tape from there to the loss. `root`: the
    model that the called module is a part of, which may be itself.
    """

    def __init__(self, module, root, args, kwargs):
        self.module = module
        self.root = root
        self.args = tree_map(_copy, args)
        self.kwargs = tree_map(_copy, kwargs)
        self.output = None
        self.tape = None

    @property
    def inputs(self):
        """As `check_model` takes them: a tensor, a tuple of positional arguments or a dictionary of named ones."""
        if not self.kwargs:
            return self.args[0] if len(self.args) == 1 and isinstance(self.args[0], torch.Tensor) else self.args
        return dict(inspect.signature(self.module.forward).bind(*self.args, **self.kwargs).arguments)

    def call(self, inputs):
        """The module, where it is not the model itself that is called: a `forward_fn`."""
        if isinstance(inputs, dict):
            return self.module(**inputs)
        return self.module(*inputs) if isinstance(inputs, tuple) else self.module(inputs)

    def loss(self):
        """`(loss_fn, targets)`: a plain cross-entropy of the output as itself, any other loss played from the tape,
        none where the model returns its own.
        """
        if self.tape is None or self.tape.loss is None or _own_loss(self.output):
            return None, None
        plain = [
            args
            for _, func, args, kwargs, result in self.tape.entries
            if result is self.tape.loss and func is F.cross_entropy and args[0] is self.output and _plain(kwargs)
        ]
        if plain and len(plain[0]) == 2:
            return F.cross_entropy, plain[0][1]
        return (lambda output: self.tape.play(self.output, output)), None


def _plain(named):
    default = {"weight": None, "size_average": None, "ignore_index": -100, "reduce": None, "reduction": "mean"}
    default["label_smoothing"] = 0.0
    return all(name in default and each == default[name] for name, each in named.items())


def _own_loss(output):
    loss = output.get("loss") if isinstance(output, dict) else getattr(output, "loss", None)
    return isinstance(loss, torch.Tensor)


def _copy(each):
    return each.detach().clone() if isinstance(each, torch.Tensor) else each
