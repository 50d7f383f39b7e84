"""`torchtest2.check_model` (or the test suite of `torchtest`) on the first batch that an optimizer is stepped with.

As the READMEs have it: the model, one batch, the loss, the optimizer. The check stands before the optimizer's first
step; both tools are given a model that has not been trained by it. Where nothing is stepped that torch knows as an
optimizer, the check is at the end of the program, without one.
"""

import atexit
import copy

import torch
from first_step import Step, Tape
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook
from watched import Report, Watched, shared


class Torchtest:
    def __init__(self, check):
        self.check = check
        self.idle = False
        self.watched = Watched(self)
        self.report = None
        self.steps = []
        self.pending = None
        self.tape = None
        self.checked = []
        self.first = None
        self.earlier = []

    def install(self):
        self.report = Report()
        atexit.register(self.at_end)
        self.watched.install()
        register_optimizer_step_pre_hook(self.before_step)
        backward = torch.Tensor.backward

        def watched_backward(loss, *args, **kwargs):
            if self.tape is not None and not self.idle:
                self.tape.loss = loss
                self.stop()
            return backward(loss, *args, **kwargs)

        scale = torch.amp.GradScaler.scale

        def watched_scale(scaler, outputs):
            if self.tape is not None and not self.idle and isinstance(outputs, torch.Tensor):
                self.tape.loss = outputs  # the loss of a user is the one that is not scaled yet
                self.stop()
            return scale(scaler, outputs)

        torch.Tensor.backward, torch.amp.GradScaler.scale = watched_backward, watched_scale

    def before(self, module, args, kwargs):
        root = self.watched.root(module)
        self.pending = Step(*(unwrapped(each) for each in (module, root)), args, kwargs)

    def after(self, module, output):  # noqa: ARG002 - the one that `before` was told of
        step = self.pending
        if not self.steps:
            self.tape = Tape()
            self.tape.__enter__()
            self.first = self.first or step
        elif self.tape is None:  # its loss is known: this is the next batch of the same step
            return
        step.output, step.tape = output, self.tape
        self.steps.append(step)

    def stop(self):
        tape, self.tape = self.tape, None
        tape.__exit__(None, None, None)

    def before_step(self, optimizer, args, kwargs):  # noqa: ARG002 - the signature is PyTorch's
        if self.idle:
            return
        if self.tape is not None:
            self.stop()
        steps, self.steps = self.steps, []
        if steps and not any(each is optimizer for each in self.checked):
            self.checked.append(optimizer)
            # What was called before an earlier step, as a generator may be, has no loss that is known.
            fitting = [each for each in (*steps, *self.earlier) if shared(each.module, optimizer)]
            self.examine(fitting[0] if fitting else steps[0], optimizer)
        self.earlier += [each for each in steps if not any(each.module is one.module for one in self.earlier)]
        for each in self.earlier:
            each.tape = None

    def at_end(self):
        if self.tape is not None:
            self.stop()
        if not self.checked and self.first is not None:
            self.examine(self.first, None)

    def examine(self, step, optimizer):
        self.idle = True
        try:
            with torch.enable_grad():
                self.check(self.report, step, optimizer)
            self.report.used += 1
        except Exception as error:  # noqa: BLE001 - whatever keeps the tool from checking is told
            self.report.notes.append(f"{type(error).__name__}: {str(error).strip()}".splitlines()[0])
        finally:
            self.idle = False
            self.report.write()


def unwrapped(module):
    """The model as it was before `DistributedDataParallel`."""
    return module.module if isinstance(module, DistributedDataParallel) else module


def check_model(report, step, optimizer):
    """torchtest2: every check that fails or warns. Where a part of the model is called and the optimizer holds more
    than that part, the model is given with the part's call as `forward_fn`.
    """
    import torchtest2

    loss_fn, targets = step.loss()
    model, how = step.module, {}
    if optimizer is not None and shared(step.root, optimizer) > shared(model, optimizer):
        model = step.root
        how["forward_fn"] = lambda _, inputs, __: step.call(inputs)
        how["eval_forward_fn"] = lambda _, inputs: step.call(inputs)
    found = torchtest2.check_model(model, step.inputs, targets, loss_fn=loss_fn, optimizer=optimizer, **how)
    levels = {"FAIL": "error", "WARN": "warning"}
    for each in found.failures + found.warnings:
        report.remark(levels[each.status.name], each.name, type(step.module).__name__, each.message)


def suite(report, step, optimizer):
    """torchtest: variables that do not change, NaN and infinity in the output. It stops at the first."""
    from torchtest import torchtest

    loss_fn, targets = step.loss()
    if loss_fn is None or optimizer is None or not isinstance(step.inputs, torch.Tensor):
        raise TypeError("torchtest wants one tensor of inputs, a loss function and an optimizer")
    if targets is None:
        loss_fn, targets = _alone(loss_fn), torch.zeros(())
    before, state = copy.deepcopy(step.module.state_dict()), copy.deepcopy(optimizer.state_dict())
    asked = {"test_vars_change": True, "test_nan_vals": True, "test_inf_vals": True}
    try:
        torchtest.test_suite(step.module, loss_fn, optimizer, [step.inputs, targets], **asked)
    except (
        torchtest.VariablesChangeException,
        torchtest.NaNTensorException,
        torchtest.InfTensorException,
    ) as error:
        report.remark("error", type(error).__name__, type(step.module).__name__, str(error))
    finally:
        step.module.load_state_dict(before)
        optimizer.load_state_dict(state)


def _alone(loss_fn):
    return lambda output, _: loss_fn(output)


def install():
    Torchtest(check_model).install()
