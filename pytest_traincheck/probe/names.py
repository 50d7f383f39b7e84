"""Canonical public names of classes, and the library a thing belongs to."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path

import torch

_PUBLIC = (
    "torch.nn",
    "torch.optim",
    "torch.optim.lr_scheduler",
    "torch.optim.swa_utils",
    "torch.nn.parallel",
    "torch.utils.data",
    "torch.amp",
    "torch.distributed.fsdp",
    "torch",
)
_INSTALLED = ("site-packages", "dist-packages")
_STDLIB = tuple({str(Path(sysconfig.get_paths()[key]).resolve()) for key in ("stdlib", "platstdlib")})
_TORCH = str(Path(torch.__file__).parent)
_PACKAGE = str(Path(__file__).parent.parent) + os.sep


def is_user_file(filename: str) -> bool:
    """Whether a code object's file is the user's: not installed, not of the standard library, not this package's."""
    if filename.startswith("<"):
        return filename in ("<stdin>", "<string>") or filename.startswith("<ipython")
    if filename.startswith((_PACKAGE, _TORCH)) or any(part in filename for part in _INSTALLED):
        return False
    return not filename.startswith(_STDLIB)


def library_of(module_name: str) -> str:
    """Top-level package of an installed module; `user` for the user's own code."""
    top = module_name.partition(".")[0]
    if top in ("torch", "builtins"):
        return top
    module = sys.modules.get(module_name) or sys.modules.get(top)
    filename = getattr(module, "__file__", None)
    if filename is None or is_user_file(filename):
        return "user"
    return top


def class_name(cls: type) -> str:
    """`torch.nn.Linear` for what torch exports publicly, `MODULE.QUALNAME` for the rest."""
    module = cls.__module__
    if module == "torch" or module.startswith("torch."):
        for public in _PUBLIC:
            if getattr(sys.modules.get(public), cls.__name__, None) is cls:
                return f"{public}.{cls.__name__}"
    return f"{module}.{cls.__qualname__}"
