"""The test suite of torchtest 0.5, used like `check_model` of torchtest2."""

from use_torchtest2 import Torchtest, suite


def install():
    Torchtest(suite).install()
