"""`seed_by = "probe"`: what follows is what would follow if the script seeded itself in its first lines."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_traincheck.launch.run import RunRequest, RunStatus, execute

Make = Callable[..., RunRequest]

pytestmark = pytest.mark.slow

DRAWS = """\
print(random.random(), numpy.random.rand(), torch.rand(1).item(), hash("a"))
loader = torch.utils.data.DataLoader(torch.arange(8), 4, shuffle=True, num_workers=1,
                                     worker_init_fn=lambda _: print(random.random(), torch.rand(1).item(), flush=True))
print([batch.tolist() for batch in loader])
torch.nn.Linear(2, 2)(torch.ones(2)).sum().backward()
"""
PLAIN = "import random\nimport numpy\nimport torch\n" + DRAWS
SEEDED = (
    f"import random\nimport numpy\nimport torch\nrandom.seed(5)\nnumpy.random.seed(5)\ntorch.manual_seed(5)\n{DRAWS}"
)


@pytest.fixture
def printed(project: Path, request_for: Make) -> Callable[..., str]:
    def run(program: str, seed: int, command: str = "python train.py") -> str:
        (project / "train.py").write_text(program)
        request = request_for(command, seed=seed, seed_by="probe", timeout=120.0)
        assert execute(request).status is RunStatus.OK
        return (request.run_dir / "stdout.txt").read_text()

    return run


def test_it_is_as_if_the_script_did_it(printed: Callable[..., str], project: Path) -> None:
    (project / "train.py").write_text(SEEDED)
    wanted = subprocess.run(
        [sys.executable, "train.py"], cwd=project, env={**os.environ, "PYTHONHASHSEED": "5"},
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert printed(PLAIN, 5) == wanted
    assert printed(PLAIN, 5) == wanted
    assert printed(PLAIN, 6) != wanted


def test_a_seed_of_its_own_is_left_alone(printed: Callable[..., str]) -> None:
    said = {printed("import torch\ntorch.manual_seed(1)\nprint(torch.rand(1).item())\n", seed) for seed in (0, 1)}
    assert len(said) == 1


def test_nothing_is_imported_for_it(printed: Callable[..., str]) -> None:
    program = "import sys\nprint([name for name in ('torch', 'numpy') if name in sys.modules])\n"
    assert printed(program, 0).strip() == "[]"


def test_all_ranks_begin_alike(printed: Callable[..., str]) -> None:
    program = "import torch\nprint(torch.rand(1).item())\n"
    first, second = printed(program, 3, "torchrun --nproc-per-node 2 train.py").split()
    assert first == second
