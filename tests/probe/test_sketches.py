"""Sketches estimate distances, do not see how a tensor lies in memory, end in time, and disturb nothing."""

from __future__ import annotations

import gc
import json
import math
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from measuring import Tiny, every_step  # noqa: E402
from torch import nn  # noqa: E402

from pytest_traincheck.probe import observe, sketches  # noqa: E402
from pytest_traincheck.probe.sketch import faint, sketch  # noqa: E402
from pytest_traincheck.probe.sketch_rows import together  # noqa: E402
from pytest_traincheck.trace.format import SKETCH  # noqa: E402

pytestmark = pytest.mark.usefixtures("seeded")


def distance(first: Any, second: Any) -> float:
    """Estimated from two sketches."""
    ours, theirs = sketch(first), sketch(second)
    assert ours is not None
    assert theirs is not None
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(ours[4], theirs[4], strict=True)) / 4)


@pytest.mark.parametrize("size", [3, 500, 4096, 4097, 50_000])
@pytest.mark.parametrize("part", [1e-3, 0.1, 1.0])
def test_projections_estimate_a_distance(size: int, part: float) -> None:
    x = torch.randn(size)
    noise = torch.randn(size) * part
    true = float(torch.linalg.vector_norm(noise))
    assert 0.1 * true < distance(x, x + noise) < 3 * true


@pytest.mark.parametrize("place", [0, 4095, 4096, 9_999])
def test_one_element_shows(place: int) -> None:
    x = torch.zeros(10_000)
    y = x.clone()
    y[place] = 1.0
    assert distance(x, y) == pytest.approx(1.0)


def test_two_elements_changed_places() -> None:
    """What norm and mean cannot see."""
    x = torch.arange(5000.0)
    y = x.flip(0)
    ours, theirs = sketch(x), sketch(y)
    assert ours is not None
    assert theirs is not None
    assert ours[2:4] == pytest.approx(theirs[2:4])
    assert distance(x, y) > 0.1 * ours[2]


def test_memory_does_not_matter() -> None:
    x = torch.randn(2, 8, 5, 5)
    assert sketch(x) == sketch(x.contiguous(memory_format=torch.channels_last))
    assert sketch(x[:, ::2]) == sketch(x[:, ::2].contiguous())


def test_signs_are_the_same_for_ever() -> None:
    """Recordings are compared with later versions of torch, Python and this package."""
    found = sketch(torch.arange(1.0, 8193.0))
    assert found is not None
    assert found[4] == (163840.0, 524288.0, 65536.0, -62256.0)


def test_whole_numbers_are_exact() -> None:
    x = torch.arange(100)
    y = x.clone()
    y[3], y[4] = 4, 3
    ours, theirs = sketch(x), sketch(y)
    assert ours is not None
    assert theirs is not None
    assert ours[1] != theirs[1]


@pytest.mark.parametrize("hidden", [-1e4, -1e9, float("-inf"), torch.finfo(torch.float32).min, float("nan")])
def test_what_masks_does_not_hide_the_rest(hidden: float) -> None:
    scores = torch.randn(6, 6)
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
    x = scores.masked_fill(mask, hidden)
    plain, changed = sketch(scores.masked_fill(mask, 0.0)), sketch((1.01 * scores).masked_fill(mask, hidden))
    found = sketch(x)
    assert found is not None
    assert plain is not None
    assert changed is not None
    assert found[2:] == plain[2:]
    assert changed[2] == pytest.approx(1.01 * found[2])
    other = sketch(scores.masked_fill(mask.T, hidden))
    assert other is not None
    assert other[1] != found[1] != 0


def test_large_numbers_alone_are_not_extreme() -> None:
    found = sketch(torch.full((4,), 2e4))
    assert found is not None
    assert found[1] == 0
    assert found[2] == pytest.approx(4e4)


def test_faint_elements() -> None:
    assert faint(torch.tensor([1.0, -1.0, 0.0, 1e-7])) == 1


def rows(folder: Path) -> Any:
    (file,) = folder.glob("proc-*/sketches.bin")
    return np.fromfile(file, SKETCH)


def test_two_steps_and_no_more(tmp_path: Path) -> None:
    with observe(tmp_path / "short"):
        list(every_step(2))
    with observe(tmp_path / "long"):
        list(every_step(6))
    assert len(rows(tmp_path / "short")) == len(rows(tmp_path / "long")) > 50


@pytest.mark.parametrize(("wanted", "more"), [("4", True), ("0", False)])
def test_as_many_steps_as_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, more: bool
) -> None:
    with observe(tmp_path / "two"):
        list(every_step(5))
    monkeypatch.setenv(sketches.VARIABLE, wanted)
    with observe(tmp_path / "other"):
        list(every_step(5))
    if more:
        assert len(rows(tmp_path / "other")) > 1.5 * len(rows(tmp_path / "two"))
    else:
        assert not list((tmp_path / "other").glob("proc-*/sketches.bin"))


def slots(folder: Path) -> list[str]:
    """The slot of every row, in the order they were written."""
    (process,) = folder.glob("proc-*")
    symbols = [json.loads(line) for line in (process / "symbols.jsonl").read_text().splitlines()]
    names = {symbol["i"]: symbol["name"] for symbol in symbols if symbol["k"] == "slot"}
    return [names[number] for number in rows(folder)["slot"].tolist()]


def test_they_begin_again_with_the_optimizer_of_the_next_model(tmp_path: Path) -> None:
    """A teacher is trained first, then its student."""
    with observe(tmp_path / "teacher"):
        list(every_step(5))
    with observe(tmp_path / "both"):
        list(every_step(5))
        list(every_step(5))
    found = slots(tmp_path / "both")
    begin = found.index("phase")
    assert begin == len(rows(tmp_path / "teacher"))
    assert found.count("phase") == 1
    again = found[begin:]
    for kind in ("in.tokens", "var", "hyper", "in.tensors"):
        assert again.count(kind) >= found[:begin].count(kind) > 0


def test_optimizers_that_are_made_all_the_time_end_it(tmp_path: Path) -> None:
    with observe(tmp_path):
        for _ in range(3 * sketches.PHASES):
            list(every_step(2))
    assert slots(tmp_path).count("phase") == sketches.PHASES - 1


def test_what_a_scheduler_is_told(tmp_path: Path) -> None:
    """As a number of Python's or of NumPy's or as a tensor, which are the same."""
    for name, metric in (("number", 0.75), ("numpy", np.float32(0.75)), ("tensor", torch.tensor(0.75))):
        with observe(tmp_path / name):
            net = nn.Linear(3, 1)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
            net(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            scheduler.step(metric)
        told = rows(tmp_path / name)[np.array(slots(tmp_path / name)) == "in.metrics"]
        assert told["mean"].tolist() == [0.75]


def test_what_is_no_number_is_not_sketched(tmp_path: Path) -> None:
    """A scheduler of the user's own is told whatever it likes."""

    class Own(torch.optim.lr_scheduler.LRScheduler):
        def get_lr(self) -> list[Any]:
            return self.base_lrs

        def step(self, history: Any = None) -> None:
            self.history = history
            super().step()

    with observe(tmp_path):
        scheduler = Own(torch.optim.SGD(nn.Linear(3, 1).parameters(), lr=0.1))
        scheduler.step(np.array([0.5, 0.25]))
    (process,) = tmp_path.glob("proc-*")
    assert json.loads((process / "meta.json").read_text())["probe_error_count"] == 0


def batch(order: Any, labels: Any = None) -> dict[str, Any]:
    x, y = torch.arange(24.0).view(6, 4), torch.tensor([0, 1, 0, 2, 1, 0])
    return {"x": x[order], "y": y[order if labels is None else labels], "name": "a batch"}


def of_batch(value: dict[str, Any]) -> dict[str, int]:
    return dict(together([(name, item) for name, item in value.items() if isinstance(item, torch.Tensor)]))


def test_rows_in_another_order_are_the_same_rows_side_by_side() -> None:
    plain, sorted_ = of_batch(batch(torch.arange(6))), of_batch(batch(torch.tensor([3, 1, 0, 5, 2, 4])))
    assert set(plain) == {"rows.x", "rows.y", "pairs.x|y"}
    assert plain == sorted_


def test_rows_that_lost_their_labels_have_other_pairs() -> None:
    """Inputs sorted by length, and labels left as they were."""
    plain = of_batch(batch(torch.arange(6)))
    apart = of_batch(batch(torch.tensor([3, 1, 0, 5, 2, 4]), torch.arange(6)))
    assert {slot for slot in plain if plain[slot] != apart[slot]} == {"pairs.x|y"}


def test_rows_of_views_and_of_other_batches_differ() -> None:
    plain, other = of_batch(batch(torch.arange(6))), of_batch(batch(torch.tensor([0, 1, 2, 3, 4, 4])))
    assert plain["rows.x"] != other["rows.x"]
    x = torch.arange(48.0).view(6, 8)
    assert of_batch({"x": x[:, ::2], "y": x[:, 0]}) == of_batch({"x": x[:, ::2].contiguous(), "y": x[:, 0].clone()})


def test_tensors_without_rows_say_nothing() -> None:
    assert not of_batch({"x": torch.ones(4, 2)})
    assert not of_batch({"x": torch.ones(1, 2), "y": torch.ones(1)})
    assert set(of_batch({"x": torch.ones(4, 2), "y": torch.tensor(1.0), "z": torch.ones(3)})) == {"rows.x"}


def test_they_end_in_a_process_that_takes_no_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketches, "LIMIT", 40)
    with observe(tmp_path):
        net = Tiny()
        for _ in range(20):
            net(torch.ones(1, 4, dtype=torch.int64))
    assert len(rows(tmp_path)) == 40


def test_training_is_the_same(tmp_path: Path) -> None:
    def train() -> list[float]:
        torch.manual_seed(3)
        net = nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.3), nn.BatchNorm1d(8), nn.Linear(8, 2))
        optimizer = torch.optim.Adam(net.parameters())
        for _ in range(4):
            optimizer.zero_grad()
            (net(torch.randn(6, 5)).square().mean() + torch.rand(1).sum()).backward()
            optimizer.step()
        return [value for parameter in net.parameters() for value in parameter.detach().flatten().tolist()]

    alone = train()
    with observe(tmp_path):
        watched = train()
    assert alone == watched


def test_no_tensor_is_kept_alive(tmp_path: Path) -> None:
    net = nn.Linear(3, 3)
    with observe(tmp_path):
        x = torch.randn(2, 3)
        ref = weakref.ref(x)
        out = weakref.ref(net(x))
        del x
        gc.collect()
        assert ref() is None
        assert out() is None


def evaluated(model: Any, times: int) -> None:
    with torch.no_grad():
        for _ in range(times):
            model.eval()(torch.randn(4, 3))


def steps(model: Any, count: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(count):
        optimizer.zero_grad()
        model.train()(torch.randn(4, 3)).sum().backward()
        optimizer.step()


def test_two_calls_of_the_first_late_evaluation_and_of_a_loaded_model(tmp_path: Path) -> None:
    with observe(tmp_path):
        model = torch.nn.Linear(3, 2)
        steps(model, 4)
        for _ in range(3):
            evaluated(model, 5)
        other = torch.nn.Linear(3, 2)
        other.load_state_dict(model.state_dict())
        evaluated(other, 5)
        for _ in range(sketches.EVALUATIONS):
            other.load_state_dict(model.state_dict())
            evaluated(other, 1)
            steps(other, 1)
    found = slots(tmp_path)
    places = [number for number, name in enumerate(found) if name == "phase.evaluation"]
    assert len(places) == sketches.EVALUATIONS
    first = found[places[0] : places[1]]
    assert first.count("in.input") == 2 * sketches.CALLS  # the model, and the function in it
    assert found[places[1] : places[2]].count("in.input") == 2 * sketches.CALLS


def test_an_evaluation_among_the_first_steps_begins_nothing(tmp_path: Path) -> None:
    with observe(tmp_path):
        model = torch.nn.Linear(3, 2)
        evaluated(model, 2)
        steps(model, 1)
        evaluated(model, 2)
    assert "phase.evaluation" not in slots(tmp_path)


def test_what_is_given_inside_of_transforms_is_sketched_as_it_is_outside(tmp_path: Path) -> None:
    """Whichever dimension is mapped over, and whoever takes gradients within; results are not."""
    net = nn.Linear(4, 2)
    x = torch.randn(6, 5, 4)

    def loss_of(values: Any, x: Any) -> Any:
        return torch.func.functional_call(net, values, (x,)).sum()

    values = {name: value.detach() for name, value in net.named_parameters()}
    with observe(tmp_path / "trace"):
        torch.optim.SGD(net.parameters(), lr=0.1)
        torch.func.vmap(torch.func.grad(loss_of), in_dims=(None, 1))(values, x)
    (folder,) = (tmp_path / "trace").glob("proc-*")
    symbols = [json.loads(line) for line in (folder / "symbols.jsonl").read_text().splitlines()]
    slots = {row["i"]: row["name"] for row in symbols if row["k"] == "slot"}
    rows = np.fromfile(folder / "sketches.bin", dtype=SKETCH)
    names = [slots[int(slot)] for slot in rows["slot"]]
    given = rows[names.index("in.input")]
    wanted = sketch(x.movedim(1, 0))
    assert wanted is not None
    assert (given["size"], given["norm"], tuple(given["projections"])) == (wanted[0], wanted[2], wanted[4])
    assert not any(name.startswith("out") for name in names)
