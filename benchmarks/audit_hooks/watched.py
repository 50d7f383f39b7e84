"""What a program's modules and optimizers do, told to the module that uses a tool.

A *call* is that of the outermost module with gradients on: what a training loop writes as `model(batch)`. Its *root* is
the largest module that holds it, which a loop knows as its model.
"""

import atexit
import functools
import gc
import json
import os
from pathlib import Path

import torch
from torch.nn.modules.module import Module
from torch.nn.utils.parametrize import ParametrizationList
from torch.optim.optimizer import Optimizer


class Watched:
    """Calls back before and after each call; `user.idle` is true while the tool itself works."""

    def __init__(self, user):
        self.user = user
        self.optimizers = []
        self.depth = 0
        self.roots = {}
        self.pid = os.getpid()

    def install(self):
        made, called = Optimizer.__init__, Module.__call__

        @functools.wraps(made)
        def init(optimizer, *args, **kwargs):
            made(optimizer, *args, **kwargs)
            if not any(each is optimizer for each in self.optimizers):
                self.optimizers.append(optimizer)

        @functools.wraps(called)
        def call(module, *args, **kwargs):
            if torch.compiler.is_compiling() or self.user.idle or os.getpid() != self.pid:
                return called(module, *args, **kwargs)
            outermost = self.depth == 0 and torch.is_grad_enabled() and self.trains(module)
            if outermost:
                self.user.before(module, args, kwargs)
            self.depth += 1
            try:
                output = called(module, *args, **kwargs)
            finally:
                self.depth -= 1
            if outermost:
                self.user.after(module, output)
            return output

        Optimizer.__init__, Module.__call__ = init, call

    def trains(self, module):
        """Whether it has parameters that are to be trained, or that an optimizer holds. A parametrization is called
        where a weight is read: by no loop.
        """
        if isinstance(module, ParametrizationList):
            return False
        return any(each.requires_grad for each in module.parameters()) or any(
            shared(module, optimizer) for optimizer in self.optimizers
        )

    def root(self, module):
        """The largest module that holds it. Kept with the modules, so that an id is not used again."""
        if id(module) not in self.roots:
            modules = [each for each in gc.get_objects() if issubclass(type(each), Module)]
            holders = [each for each in modules if any(inner is module for inner in each.modules())]
            self.roots[id(module)] = (max(holders, key=lambda each: len(list(each.modules()))), module)
        return self.roots[id(module)][0]


def shared(module, optimizer):
    """How many parameters of the module the optimizer holds."""
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    return sum(id(each) in held for each in module.parameters())


class Report:
    """What the tool said in this process, written at the end and whenever asked."""

    def __init__(self):
        self.pid = os.getpid()
        self.remarks = []
        self.notes = []
        self.used = 0
        atexit.register(self.write)

    def remark(self, level, kind, where, text):
        self.remarks.append({"level": level, "kind": kind, "where": where, "text": text})

    def write(self):
        if os.getpid() == self.pid:
            held = {"used": self.used, "remarks": self.remarks, "notes": self.notes}
            (Path(os.environ["AUDIT_REPORT"]) / f"{self.pid}.json").write_text(json.dumps(held))
