"""What is recorded of a program that shards its models, and of distributed checkpoints."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
dist = pytest.importorskip("torch.distributed")
if not dist.is_available():
    pytest.skip("torch was built without distributed", allow_module_level=True)

from measuring import Watch  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.probe.digest import ABSENT, NONZERO  # noqa: E402
from pytest_traincheck.probe.variable import Slot, Var  # noqa: E402

pytestmark = pytest.mark.usefixtures("seeded", "alone")

GIVEN = 1.0


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    """A process group of one rank."""
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.FileStore(str(tmp_path / "store"), 1))
    try:
        yield
    finally:
        dist.destroy_process_group()


def collectives(trace: Any) -> list[str]:
    return [call.name.rpartition(".")[2] for call in trace.calls if call.type == "collective"]


def test_what_torch_has_renamed_keeps_its_name(watched: Watch) -> None:
    gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)
    scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)

    def share() -> None:
        gather(torch.zeros(3), torch.ones(3))
        scatter(torch.zeros(3), torch.ones(3))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dist.all_gather_into_tensor(torch.zeros(3), torch.ones(3))

    assert collectives(watched(share)) == ["all_gather_into_tensor", "reduce_scatter_tensor", "all_gather_into_tensor"]


def test_what_a_checkpoint_does_of_its_own_is_not_the_programs(watched: Watch, tmp_path: Path) -> None:
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    def resume() -> None:
        model = nn.Linear(4, 3)
        optimizer = torch.optim.AdamW(model.parameters())
        dist.all_reduce(torch.ones(3))
        of_model, of_optimizer = get_state_dict(model, optimizer)
        checkpoint.save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=tmp_path / "file")
        state = {"model": of_model, "optimizer": of_optimizer}
        checkpoint.load(state, checkpoint_id=tmp_path / "file")
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()

    trace = watched(resume)
    assert collectives(trace) == ["all_reduce"]
    assert len([call for call in trace.calls if call.type == "optimizer"]) == 1
    given = trace.measured("load.given")
    assert given
    assert {item.value for item in given} == {GIVEN}, "what was read into the model's own memory is loaded"


def test_the_whole_that_is_put_together_for_a_pass_is_not_the_parameter(watched: Watch) -> None:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("torch has no fully_shard")
    mesh = dist.device_mesh.init_device_mesh("cpu", (1,))

    def train() -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        rounded = fsdp.MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for part in (model[0], model):
            fsdp.fully_shard(part, mesh=mesh, mp_policy=rounded, reshard_after_forward=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(4):
            for _ in range(2):
                model(torch.randn(3, 4)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for _ in range(2):
                    model(torch.randn(3, 4))

    trace = watched(train)
    cleared = {call.seq for call in trace.calls if call.type == "zero_grad"}
    lost = [change for change in trace.changed("gradient") if change.old == NONZERO and change.new == ABSENT]
    assert len(cleared) == 4
    assert len(lost) == 16
    assert {change.parent for change in lost} == cleared
    stepped = {call.seq for call in trace.calls if call.type == "optimizer"}
    assert {change.parent for change in trace.changed("parameter") if change.old == NONZERO} == stepped


def test_a_place_of_a_shard_does_not_hold_the_whole() -> None:
    layer = nn.Linear(4, 2)
    slot = Slot(weakref.ref(layer), "weight", *(Var(kind, "weight") for kind in ("parameter", "gradient", "flag")))
    assert slot.tensor() is layer.weight
    slot.is_of_shards()
    assert slot.tensor() is None


def test_what_a_join_does_of_its_own_is_not_the_programs(watched: Watch) -> None:
    """It tells the other ranks in each pass that this one has data, and asks them for theirs until all have ended."""
    from torch.distributed.algorithms.join import Join
    from torch.nn.parallel import DistributedDataParallel

    def train() -> None:
        model = DistributedDataParallel(nn.Linear(4, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            with Join([model]):
                for _ in range(3):
                    optimizer.zero_grad()
                    model(torch.ones(2, 4)).sum().backward()
                    optimizer.step()
        dist.all_reduce(torch.ones(3))

    trace = watched(train)
    assert collectives(trace) == ["all_reduce"]
    assert len([call for call in trace.calls if call.type == "optimizer"]) == 6
    assert len(trace.measured("ranks.waited")) == 2


def test_a_stage_that_runs_to_learn_its_shapes_is_not_called(watched: Watch) -> None:
    """Its inputs are whatever lies in memory."""
    pipelining = pytest.importorskip("torch.distributed.pipelining")

    def train() -> None:
        model = nn.Linear(4, 3)
        stage = pipelining.PipelineStage(model, 0, 1, torch.device("cpu"))
        schedule = pipelining.ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            schedule.step(torch.ones(4, 4), target=torch.zeros(4, 3))
            optimizer.step()

    trace = watched(train)
    assert len([call for call in trace.calls if call.name == "torch.nn.Linear"]) == 4, "two steps of two microbatches"


def test_how_a_parameter_is_placed_is_said_once(watched: Watch) -> None:
    fsdp = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(fsdp, "fully_shard"):
        pytest.skip("torch has no fully_shard")
    mesh = dist.device_mesh.init_device_mesh("cpu", (1,))

    def train() -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
        model(torch.ones(2, 4))  # to see that the shapes fit, before anything is spread
        fsdp.fully_shard(model[0], mesh=mesh)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()

    assert len(watched(train).measured("parameter.placed=Shard(0)")) == len(("weight", "bias"))
