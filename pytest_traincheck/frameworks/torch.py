"""torch itself, on one device. Its version is recorded with that of Python."""

from __future__ import annotations

from .description import Framework, Wrapper

FRAMEWORK = Framework(
    "torch",
    wrappers=(
        Wrapper("AveragedModel", inner="module"),
        Wrapper("DataParallel", inner="module"),
        Wrapper("OptimizedModule", inner="_orig_mod", compiles=True),
    ),
)
