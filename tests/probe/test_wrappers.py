"""Wrappers that are looked through, one by one as the libraries make them."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from pytest_traincheck.frameworks.built_in import built_in
from pytest_traincheck.frameworks.description import Framework, Wrapper
from pytest_traincheck.probe.wrappers import Wrappers

KNOWN = Wrappers(built_in())


@pytest.mark.parametrize(
    "wrap",
    [nn.DataParallel, torch.optim.swa_utils.AveragedModel, torch.compile, checkpoint_wrapper],
    ids=lambda wrap: wrap.__name__,
)
def test_the_module_inside_is_found(wrap: type) -> None:
    network = nn.Linear(2, 2)
    wrapper = wrap(network)
    assert KNOWN.of(type(wrapper)) is not None
    inner = KNOWN.inner(wrapper)
    assert inner is not None
    assert inner is network or isinstance(wrapper, torch.optim.swa_utils.AveragedModel)  # which holds a copy
    assert KNOWN.unwrap(nn.DataParallel(wrapper)) is inner
    assert [path for _, path in KNOWN.walk(nn.Sequential(wrapper))] == ["", "0"]


@pytest.mark.parametrize("cls", [DistributedDataParallel, FullyShardedDataParallel])
def test_wrappers_of_ranks_are_known(cls: type) -> None:
    found = KNOWN.of(cls)
    assert found is not None
    assert found.short
    assert not found.compiles


def test_only_what_is_compiled_hides_what_is_inside() -> None:
    compiled = KNOWN.of(type(torch.compile(nn.Linear(2, 2))))
    assert compiled is not None
    assert compiled.compiles


class Mine(nn.DataParallel):
    """A class of the user's: what it does to a call is not known."""


def test_what_is_no_wrapper_is_left_alone() -> None:
    network = nn.Linear(2, 2)
    for module in (network, Mine(network)):
        assert KNOWN.of(type(module)) is None
        assert KNOWN.inner(module) is None
        assert KNOWN.unwrap(module) is module


def test_one_name_in_two_libraries_is_two_classes() -> None:
    theirs = type("DistributedDataParallel", (nn.Module,), {"__module__": "elsewhere.parallel"})
    neighbour = type("DistributedDataParallel", (nn.Module,), {"__module__": "elsewhere_too"})
    wrapper = Wrapper("DistributedDataParallel", inner="network")
    known = Wrappers((*built_in(), Framework("elsewhere", wrappers=(wrapper,))))
    assert known.of(theirs) is wrapper
    assert known.of(neighbour) is None
    assert known.of(DistributedDataParallel) is KNOWN.of(DistributedDataParallel)


def test_what_fabric_wraps_keeps_its_name() -> None:
    """The class of Lightning Fabric, as it is where the library is installed and by its name where it is not."""
    network = nn.Linear(2, 2)
    try:
        from lightning.fabric import Fabric
    except ImportError:
        wrapper = type("_FabricModule", (nn.Module,), {"__module__": "lightning.fabric.wrappers"})()
        wrapper._forward_module = network
    else:
        wrapper = Fabric(accelerator="cpu", devices=1).setup_module(network)
    assert KNOWN.unwrap(wrapper) is network
    assert [path for _, path in KNOWN.walk(nn.Sequential(wrapper))] == ["", "0"]
