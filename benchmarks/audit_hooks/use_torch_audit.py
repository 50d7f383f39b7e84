"""`torch_audit.autopatch`, as its README has it, for every pair of a model and an optimizer over its parameters.

`every_n_steps=1`, which the README names for auditing every step: its 1000 would see one step of these programs. The
call stands before the model's first call, where the README has it; a model whose optimizer is made later is patched
again then.
"""

import atexit

from watched import Report, Watched, shared

LEVELS = {"INFO": "info", "WARN": "warning", "ERROR": "error", "FATAL": "error"}


class TorchAudit:
    def __init__(self):
        self.idle = False
        self.watched = Watched(self)
        self.report = None
        self.auditors = []
        self.pairs = set()
        self.known = None

    def install(self):
        self.report = Report()
        atexit.register(self.finish)
        self.watched.install()

    def before(self, module, args, kwargs):  # noqa: ARG002 - what is called, not with what
        root = self.watched.root(module)
        now = (id(root), len(self.watched.optimizers))
        if now == self.known:
            return
        self.known = now
        fitting = [each for each in self.watched.optimizers if shared(root, each)] or self.watched.optimizers[-1:]
        if not fitting and not any(of is root for of, _ in self.auditors):
            self.audit(root, None)
        for optimizer in fitting:
            if (id(root), id(optimizer)) not in self.pairs:
                self.unpatch(root)
                self.audit(root, optimizer)

    def unpatch(self, root):
        """Takes back what was patched without an optimizer."""
        for of, auditor in self.auditors:
            if of is root and auditor.optimizer is None:
                auditor.unpatch()

    def audit(self, root, optimizer):
        from torch_audit import autopatch

        self.pairs.add((id(root), id(optimizer)))
        self.idle = True
        try:
            auditor = autopatch(
                root, optimizer=optimizer, every_n_steps=1, fail_level="ERROR", run_static=True, run_init=True
            )
        finally:
            self.idle = False
        self.auditors.append((root, auditor))

    def after(self, module, output):
        pass

    def finish(self):
        """Registered after the report's own writing, and so done before it."""
        for _, auditor in self.auditors:
            self.report.used += 1
            for found in auditor.finish(report=False).findings:
                where = f"{found.module_path or ''} {found.entity or ''}".strip()
                self.report.remark(LEVELS[found.severity.value], found.rule_id, where, found.message)


def install():
    TorchAudit().install()
