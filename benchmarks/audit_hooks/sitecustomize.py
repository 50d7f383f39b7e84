"""Puts a tool into a training script as a user would who adds the lines of its README, for `audit_peers.py` alone.

Reads `AUDIT_PEER` (which tool) and `AUDIT_REPORT` (a directory that each process writes what the tool said into). The
script is not touched: once torch is imported, its modules and optimizers are watched, and the tool is called where
its README puts the call.
"""

import importlib
import os
import sys
from importlib.machinery import PathFinder


class _AfterImport:
    """A finder that lets torch load as always and then hands over to the module that uses the tool."""

    def __init__(self, user):
        self.user = user

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            importlib.import_module(self.user).install()

        spec.loader.exec_module = exec_module
        return spec


if os.environ.get("AUDIT_PEER"):
    sys.meta_path.insert(0, _AfterImport("use_" + os.environ["AUDIT_PEER"]))
