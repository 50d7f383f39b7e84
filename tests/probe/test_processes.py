"""Traces of processes that fork, crash, are killed, or bring customisations of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from probe_runs import BOOTSTRAP

from pytest_traincheck.probe.digest import NONZERO

LOOP = """
import os, sys, time
import torch
from torch import nn
import torch.nn.functional as F

model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

def step():
    optimizer.zero_grad()
    F.mse_loss(model(torch.ones(4, 3)), torch.zeros(4, 2)).backward()
    optimizer.step()
"""


def script(text: str) -> str:
    return LOOP + textwrap.dedent(text)


@pytest.mark.slow
def test_an_exception_leaves_the_trace_up_to_it(run: Any) -> None:
    outcome = run(script("step()\nmodel(torch.ones(4, 7))"), ok=False)
    assert "shapes cannot be multiplied" in outcome.stderr
    failed = outcome.trace.calls[-2:]
    assert [call.name for call in failed] == ["torch.nn.Linear", "torch.nn.functional.linear"]
    assert all(call.flags & 1 for call in failed)
    assert outcome.trace.meta["finished"]


@pytest.mark.slow
def test_a_forked_child_and_loader_workers_have_directories_of_their_own(run: Any) -> None:
    outcome = run(
        script(
            """
            from torch.utils.data import DataLoader
            step()
            child = os.fork()
            if child == 0:
                step()
                step()
                os._exit(0)
            os.waitpid(child, 0)
            for batch in DataLoader(torch.arange(8.0), batch_size=2, num_workers=2):
                pass
            """
        )
    )
    assert len(outcome.traces) == 4
    main, child = outcome.traces[:2]
    assert len(main.called("torch.optim.SGD.step")) == 1
    assert len(child.called("torch.optim.SGD.step")) == 2
    assert child.meta["ppid"] == main.meta["pid"]
    assert {item.name for item in child.changed("parameter")} == {"weight", "bias"}
    assert all(trace.meta["finished"] and not trace.meta["probe_errors"] for trace in outcome.traces)
    batches = main.called("torch.utils.data.DataLoader.__next__")
    assert len({call.digest for call in batches if not call.flags & 1}) == 4


@pytest.mark.slow
def test_spawned_processes_are_observed(run: Any) -> None:
    outcome = run(
        """
        import multiprocessing, torch

        def work():
            torch.nn.Linear(2, 2)(torch.ones(1, 2))

        if __name__ == "__main__":
            worker = multiprocessing.get_context("spawn").Process(target=work)
            worker.start()
            worker.join()
        """
    )
    assert [len(trace.called("torch.nn.Linear")) for trace in outcome.traces] == [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_leaves_what_it_recorded(run: Any, number: signal.Signals) -> None:
    outcome = run(script(f"for _ in range(3): step()\nos.kill(os.getpid(), {int(number)})"), ok=False)
    assert outcome.status == -number
    assert len(outcome.trace.called("torch.optim.SGD.step")) == 3
    assert not outcome.trace.meta["finished"]


@pytest.mark.slow
def test_the_users_own_sitecustomize_runs_too(run: Any, tmp_path: Path) -> None:
    (tmp_path / "custom").mkdir()
    (tmp_path / "custom" / "sitecustomize.py").write_text("import builtins\nbuiltins.customised = 'yes'\n")
    text = script("print(customised, sys.modules['sitecustomize'].__file__)\nstep()")
    outcome = run(text, path=(tmp_path / "custom",))
    assert outcome.stdout.startswith("yes ")
    assert str(tmp_path / "custom") in outcome.stdout
    assert outcome.trace.called("torch.optim.SGD.step")


@pytest.mark.slow
def test_a_program_without_torch_leaves_nothing(run: Any) -> None:
    outcome = run("import json\nprint('torch' in __import__('sys').modules)")
    assert outcome.stdout == "False\n"
    assert outcome.traces == []


@pytest.mark.slow
def test_a_failing_probe_is_counted_and_the_program_goes_on(run: Any) -> None:
    outcome = run(
        script(
            """
            variables = sys.modules["_traincheck.probe.variables"].Variables
            variables.look_at_gradients = None
            step()
            print("done")
            """
        )
    )
    assert outcome.stdout == "done\n"
    errors = outcome.trace.meta["probe_errors"]
    assert outcome.trace.meta["probe_error_count"] == len(errors) > 0
    assert all("TypeError" in error["error"] for error in errors)
    assert outcome.trace.called("torch.autograd.backward")


@pytest.mark.slow
def test_a_run_directory_that_cannot_be_made_stops_nothing(tmp_path: Path) -> None:
    plain = script("step()\nprint('done')")
    environment = dict(os.environ)
    run_dir = tmp_path / "file-in-the-way"
    run_dir.write_text("")
    (tmp_path / "train.py").write_text(plain)
    environment |= {"TRAINCHECK_TRACE_DIR": str(run_dir), "PYTHONPATH": str(BOOTSTRAP)}
    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.mark.slow
def test_threads_have_stacks_of_their_own(run: Any) -> None:
    outcome = run(
        script(
            """
            import threading
            def work():
                for _ in range(20):
                    model(torch.ones(2, 3))
            threads = [threading.Thread(target=work, name=f"worker {i}") for i in range(4)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            """
        )
    )
    trace = outcome.trace
    assert len(trace.called("torch.nn.Linear")) == 80
    assert all(call.entry for call in trace.called("torch.nn.Linear"))
    assert {symbol["name"] for symbol in trace.all("thread")} >= {f"worker {i}" for i in range(4)}
    assert (trace.rows["end"][1:] > trace.rows["end"][:-1]).all()
    assert time.time() > trace.meta["started"]


TRAINERS = """
import threading
import torch
from torch import nn
from torch.nn import functional as F

def train(turns):
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(turns):
        optimizer.zero_grad()
        F.mse_loss(model(torch.ones(16, 32)), torch.zeros(16, 8)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e6)  # far from it: clipping would be one more change
        optimizer.step()
"""
"""Reading a gradient beside the thread that trains with it ended nearly every such process with SIGSEGV."""


@pytest.mark.slow
def test_threads_that_train_models_of_their_own(run: Any) -> None:
    outcome = run(
        TRAINERS
        + textwrap.dedent(
            """
            threads = [threading.Thread(target=train, args=(30,), name=f"trainer {i}") for i in range(4)]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
            print("trained")
            """
        )
    )
    assert outcome.stdout == "trained\n"
    trace = outcome.trace
    assert len(trace.called("torch.optim.AdamW.step")) == 120
    read = len([change for change in trace.changed("gradient") if change.new == NONZERO])
    # Which leaves are the first thread's is not known in a pass that it began alone and ends beside another one.
    assert read == 4 * 4 * 30 or (read == 4 * 4 * 30 - 4 and trace.meta["left_out"]), (
        "each thread reads the gradients of its own model"
    )
    assert not trace.meta["probe_errors"]


@pytest.mark.slow
def test_a_thread_that_trains_when_another_one_has_ended(run: Any) -> None:
    outcome = run(
        TRAINERS
        + textwrap.dedent(
            """
            for _ in range(2):
                thread = threading.Thread(target=train, args=(3,))
                thread.start()
                thread.join()
            """
        )
    )
    trace = outcome.trace
    assert len([change for change in trace.changed("gradient") if change.new == NONZERO]) == 2 * 4 * 3
    assert not trace.meta["left_out"], "nothing is left unread"
