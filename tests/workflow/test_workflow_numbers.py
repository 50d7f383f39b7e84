"""Numbers go with a golden through check, refresh and comparison, each to the platform it belongs to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pytest_traincheck.check.evaluate import CheckOutcome
from pytest_traincheck.check.result import InvariantVerdict, Verdict
from pytest_traincheck.config import Config, load
from pytest_traincheck.golden import store
from pytest_traincheck.golden.errors import GoldenError
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.golden.numbers import Numbers, numbers_path
from pytest_traincheck.launch.progress import quiet
from pytest_traincheck.launch.run import RunOutcome, RunRequest, RunStatus
from pytest_traincheck.relations.band_claims import QuantityOf
from pytest_traincheck.relations.called import Called
from pytest_traincheck.relations.count import PerStep
from pytest_traincheck.rules.model import Invariant, Kind, Scope
from pytest_traincheck.workflow.check import check_stored
from pytest_traincheck.workflow.compare import CompareRequest, compare
from pytest_traincheck.workflow.engine import Engine
from pytest_traincheck.workflow.refresh import refresh
from pytest_traincheck.workflow.refresh_intent import Acceptance
from pytest_traincheck.workflow.refresh_text import refresh_text
from pytest_traincheck.workflow.sufficiency import vacuous

STEP = Invariant(
    "Count",
    "step",
    PerStep(Called("step"), "once"),
    (),
    Scope.TRANSFERABLE,
    Kind.BEHAVIOUR,
    "One step.",
    24,
    3,
)
BAND = Invariant("Band", "CNN", QuantityOf("loss"), (), Scope.PINNED, Kind.NUMERIC, "The loss is in its band.", 3, 3)
CPU, GPU = "linux-x86_64-cpu", "linux-x86_64-cuda-h100"


@dataclass
class Machine:
    """Runs nothing, on a platform; learns a band around `loss` and keeps what it is given to check."""

    platform: str = CPU
    loss: float = 2.3
    checked: list[Golden] = field(default_factory=list)

    def execute(self, request: RunRequest, progress: Callable[[float], None]) -> RunOutcome:
        progress(0.1)
        process = request.run_dir / "proc-1-1"
        process.mkdir(parents=True, exist_ok=True)
        (process / "meta.json").write_text(json.dumps({"platform": self.platform, "versions": {"torch": "2.13.0"}}))
        return RunOutcome(request.run_dir, RunStatus.OK, 0, 0.5)

    def learn(
        self,
        runs: Sequence[Any],
        *,
        pipeline: str,
        spec: str,
        commit: str,
        environment: Mapping[str, str],
        seeds: tuple[int, ...],
        reason: str,
        varied: Sequence[Any] = (),
        repeated: Sequence[Any] = (),  # noqa: ARG002 - the real one reads it
    ) -> Golden:
        bounds = np.array([self.loss])
        # The environment is left out: it is about the header line, which other tests look at.
        return Golden(
            pipeline, spec, (STEP, BAND), commit, {}, seeds, len([*runs, *varied]), reason,
            platform=environment["platform"], numbers={BAND.id: Numbers(("loss",), bounds, bounds)},
        )  # fmt: skip

    def check_run(self, golden: Golden, run: Any, *, same_spec: bool) -> CheckOutcome:
        assert run is not None
        assert isinstance(same_spec, bool)
        self.checked.append(golden)
        return CheckOutcome(tuple(InvariantVerdict(rule, Verdict.HELD) for rule in golden.invariants), ())

    @property
    def engine(self) -> Engine:
        return Engine(self.execute, _load_run, self.learn, self.check_run)  # type: ignore[arg-type]


def _load_run(run_dir: Path) -> Any:
    return SimpleNamespace(directory=run_dir, left_out={})


@pytest.fixture
def config(tmp_path: Path) -> Config:
    (tmp_path / "traincheck.toml").write_text("[pipelines.net]\nrun = 'python train.py'\nseeds = [0, 1]\n")
    return load(tmp_path)


def learn_again(config: Config, machine: Machine) -> str:
    done = refresh(config, [config.pipelines["net"]], acceptance=Acceptance(), progress=quiet, engine=machine.engine)
    assert done.decision.may_write
    return refresh_text(done.pipelines[0], written=True)


def check(config: Config, machine: Machine, artifacts: Path | None = None) -> Golden:
    result = check_stored(config, config.pipelines["net"], quiet, artifacts=artifacts, engine=machine.engine)
    assert not result.errors
    return machine.checked[-1]


def loss_of(golden: Golden) -> float:
    return float(golden.numbers[BAND.id].low[0])


def test_a_check_uses_the_numbers_of_its_platform(config: Config) -> None:
    text = learn_again(config, Machine())
    assert f"commit both: {numbers_path(store.golden_path(config.store, 'net'), CPU)}" in text
    golden = check(config, Machine())
    assert (golden.platform, loss_of(golden)) == (CPU, 2.3)
    elsewhere = check(config, Machine(GPU))
    assert (elsewhere.platform, dict(elsewhere.numbers)) == ("", {})


def test_a_refresh_on_one_platform_keeps_the_numbers_of_another(config: Config) -> None:
    learn_again(config, Machine())
    learn_again(config, Machine(GPU, loss=1.1))
    assert loss_of(check(config, Machine())) == 2.3
    assert loss_of(check(config, Machine(GPU))) == 1.1


def test_other_numbers_are_no_change_of_the_rules(config: Config) -> None:
    learn_again(config, Machine())
    path = store.golden_path(config.store, "net")
    before = path.stat().st_mtime_ns
    text = learn_again(config, Machine(loss=4.6))
    assert text.startswith("net: no change")
    assert f"the numbers of this platform were learned again: {numbers_path(path, CPU)}" in text
    assert path.stat().st_mtime_ns == before
    assert loss_of(check(config, Machine())) == 4.6
    assert "learned again" not in learn_again(config, Machine(loss=4.6))


def test_damaged_numbers_are_one_clear_error(config: Config) -> None:
    learn_again(config, Machine())
    path = numbers_path(store.golden_path(config.store, "net"), CPU)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(GoldenError, match=r"net\.linux-x86_64-cpu\.npz cannot be used: .* learn it again with"):
        check(config, Machine())
    # On another platform nobody looks at it.
    check(config, Machine(GPU))
    learn_again(config, Machine())
    assert loss_of(check(config, Machine())) == 2.3


def test_another_command_needs_no_numbers(config: Config, tmp_path: Path) -> None:
    learn_again(config, Machine())
    (tmp_path / "traincheck.toml").write_text("[pipelines.net]\nrun = 'python other.py'\nseeds = [0, 1]\n")
    assert not check(load(tmp_path), Machine()).numbers


def test_artifacts_hold_the_numbers(config: Config, tmp_path: Path) -> None:
    learn_again(config, Machine())
    check(config, Machine(), artifacts=tmp_path / "kept")
    kept = tmp_path / "kept" / "net" / "golden.jsonl"
    assert loss_of(store.with_numbers(store.read(kept), kept, CPU)) == 2.3


def test_a_comparison_hands_on_what_it_learned(tmp_path: Path) -> None:
    for side in ("old", "new"):
        (tmp_path / side).mkdir()
    request = CompareRequest("old", "new", "python train.py", tmp_path, artifacts=tmp_path / "kept", name="net")
    machine = Machine()
    compare(request, quiet, machine.engine)
    assert (machine.checked[0].platform, loss_of(machine.checked[0])) == (CPU, 2.3)
    assert numbers_path(tmp_path / "kept" / "net" / "golden.jsonl", CPU).exists()


def test_unknown_numbers_do_not_make_a_check_vacuous() -> None:
    """Two rules held, three bands wait for somebody to learn on this platform: nothing is wrong with the run."""
    held = InvariantVerdict(STEP, Verdict.HELD)
    unknown = InvariantVerdict(BAND, Verdict.NOT_OBSERVABLE, "no numbers for `linux-x86_64-cuda-h100`")
    assert not vacuous([held, held, unknown, unknown, unknown])


def test_numbers_that_never_came_up_do() -> None:
    held = InvariantVerdict(STEP, Verdict.HELD)
    idle = InvariantVerdict(BAND, Verdict.NOT_TRIGGERED, "its context never came up in this run")
    unseen = InvariantVerdict(STEP, Verdict.NOT_OBSERVABLE, "no relation is installed")
    assert "only 2 of 5 rules" in vacuous([held, held, idle, idle, idle])[0].message
    assert "only 2 of 5 rules" in vacuous([held, held, unseen, unseen, unseen])[0].message
