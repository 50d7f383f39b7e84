"""What is particular to a library that pytest-traincheck does not know, as plain data: nothing here imports it."""

from pytest_traincheck.api import Framework, Observation, Wrapper

PAPERLIB = Framework(
    "paperlib",
    versions=("paperlib",),
    wrappers=(Wrapper("Monitored", inner="network"),),
)

FOCAL_LOSS = Observation("paperlib.losses:focal_loss", arguments=("gamma", "alpha"))
