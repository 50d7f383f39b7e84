"""Both cores of the recorder, the compiled one and that of Python, write the same trace to the byte."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from core_stories import PREPARED, STORIES  # noqa: E402
from core_stories_of_sampling import SAMPLED  # noqa: E402
from probe_runs import BOOTSTRAP, read_trace  # noqa: E402
from warm_python import WarmPython  # noqa: E402

from pytest_traincheck.looks import DATA_SETS, EVERYTHING, NOTHING, NUMBER_SORTS, Looks, to_text  # noqa: E402
from pytest_traincheck.looks import VARIABLE as NOT_NEEDED  # noqa: E402
from pytest_traincheck.probe import digest  # noqa: E402
from pytest_traincheck.probe.sampling import VARIABLE as SAMPLING  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def compiled() -> None:
    """The core is built, from the source at hand, unless it is younger than that."""
    core = BOOTSTRAP.parent / "core"
    target = core / "_core.abi3.so"
    sources = (REPOSITORY / "hatch_build.py", *core.glob("*.[ch]"))
    if target.exists() and all(path.stat().st_mtime < target.stat().st_mtime for path in sources):
        return
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang")):
        pytest.skip("no compiler here")
    built = subprocess.run(
        [sys.executable, "hatch_build.py"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr


def record(
    python: WarmPython, story: str, home: Path, core: str, not_needed: Looks, bootstrap: Path = BOOTSTRAP
) -> list[Path]:
    """The directories of the processes of one run, in the order in which they were made. Where later steps are not
    needed, they are measured no more behind the first eight.
    """
    (home / "train.py").write_text(PREPARED + textwrap.dedent(story))
    run_dir = home.parent / f"{core} run"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TRAINCHECK_")}
    environment |= {"TRAINCHECK_TRACE_DIR": str(run_dir), "TRAINCHECK_CORE": core, "PYTHONPATH": str(bootstrap)}
    environment[NOT_NEEDED] = to_text(not_needed)
    if story in SAMPLED.values():
        environment[SAMPLING] = json.dumps({"every": 4, "head": 10})
    done = python.run(["train.py"], cwd=home, env=environment)
    assert done.returncode == 0, done.stderr
    return sorted(run_dir.iterdir(), key=lambda path: int(path.name.rpartition("-")[2]))


LONGEST = "a file that grows"
"""It takes ten times as long as others, and is always run in check mode alone."""
IN_CHECK_MODE = {
    LONGEST,
    "blocks of all kinds",
    "interruptions while training is followed",
    "threads",
    "what changes late",
}
"""What is always run in check mode; the other stories are run so by the sweep, and in full always."""


def unless(always: bool) -> list[pytest.MarkDecorator]:
    return [] if always else [pytest.mark.sweep]


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("story", "not_needed"),
    [
        *(pytest.param(story, NOTHING, id=f"{story}, full", marks=unless(story != LONGEST)) for story in STORIES),
        *(
            pytest.param(story, EVERYTHING, id=f"{story}, check mode", marks=unless(story in IN_CHECK_MODE))
            for story in STORIES
        ),
        pytest.param(
            "loaders that make their batches", EVERYTHING - {DATA_SETS}, id="loaders that make their batches, data sets"
        ),
        # What models and losses are given is looked at in their first twelve calls, four steps longer than all else.
        pytest.param("two players", EVERYTHING - {NUMBER_SORTS}, id="two players, sorts of numbers"),
        pytest.param("a model of one result", EVERYTHING - {NUMBER_SORTS}, id="one result, sorts of numbers"),
    ],
)
def test_both_cores_write_the_same_bytes(
    warm_python: WarmPython, story: str, not_needed: Looks, tmp_path: Path
) -> None:
    home = tmp_path / "project"
    home.mkdir()
    mine, others = (record(warm_python, STORIES[story], home, core, not_needed) for core in ("c", "python"))
    compare(mine, others)


def compare(mine: list[Path], others: list[Path]) -> None:
    """Fail unless the processes of both runs have written the same bytes."""
    assert len(mine) == len(others) > 0
    for directory, other in zip(mine, others, strict=True):
        facts, known = (json.loads((path / "meta.json").read_text()) for path in (directory, other))
        assert (facts["core"], known["core"]) == ("c", "python")
        assert facts["events"] == known["events"] > 100
        assert facts["probe_error_count"] == known["probe_error_count"] == facts["lost_events"] == 0
        assert facts["left_out"] == known["left_out"]
        for name in ("symbols.jsonl", "events.bin"):
            assert (directory / name).read_bytes() == (other / name).read_bytes(), name


@pytest.fixture(scope="module")
def small_rooms(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bootstrap of a copy of the package whose traces have room for 64 rows more, each time that they are full."""
    copy = tmp_path_factory.mktemp("small rooms") / "pytest_traincheck"
    shutil.copytree(BOOTSTRAP.parents[1], copy, ignore=shutil.ignore_patterns("__pycache__"))
    writer = copy / "probe" / "writer.py"
    code = writer.read_text()
    assert "\n_CHUNK = (1 << 14) * ROW.size\n" in code
    writer.write_text(code.replace("(1 << 14) * ROW.size", "(1 << 6) * ROW.size"))
    return copy / "probe" / "bootstrap"


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("story", ["a rate that moves in every step", "loaders that make their batches", "two players"])
def test_both_cores_write_the_same_bytes_wherever_the_file_is_full(
    story: str, small_rooms: Path, warm_python: WarmPython, tmp_path: Path
) -> None:
    home = tmp_path / "project"
    home.mkdir()
    mine, others = (
        record(warm_python, STORIES[story], home, core, EVERYTHING, small_rooms) for core in ("c", "python")
    )
    compare(mine, others)


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("not_needed", [NOTHING, EVERYTHING], ids=["full", "check mode"])
def test_both_cores_write_the_same_of_batches_that_workers_make(
    not_needed: Looks, warm_python: WarmPython, tmp_path: Path
) -> None:
    """But for which worker makes which batch, whose names are made of numbers of processes."""
    home = tmp_path / "project"
    home.mkdir()
    found = []
    for core in ("c", "python"):
        trace = read_trace(record(warm_python, WORKERS, home, core, not_needed)[0])
        assert (trace.meta["core"], trace.meta["probe_error_count"]) == (core, 0)
        assert len(trace.measured("batch.examples")) > 400
        named = [number for (kind, number), symbol in trace.symbols.items() if symbol.get("name") == "batch.maker"]
        rows = trace.rows.copy()
        rows["digest"][(rows["kind"] == 3) & np.isin(rows["subject"], named)] = 0
        found.append((trace.symbols, rows.tobytes(), int((home / "asked").read_text())))
    (*mine, asked), (*others, asked_in_python) = found
    assert mine == others
    # Python is asked for the first of each pass, and where something is unusual.
    assert asked < asked_in_python / 3


WORKERS = """
    from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler
    (samplers,) = [module for name, module in sys.modules.items() if name.endswith("probe.families.samplers")]
    asked = 0
    for name in ("opened", "chosen"):
        def counted(*given, real=getattr(samplers.Choices, name)):
            global asked
            asked += 1
            return real(*given)
        setattr(samplers.Choices, name, counted)
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(torch.randn(40, 8))
    small = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(small.parameters(), lr=0.001)
    examples = torch.randn(160, 8)
    def learn(x):
        optimizer.zero_grad()
        small(x).sum().backward()
        optimizer.step()
    def pull(source):
        return next(source)
    def loader(examples=examples, batch_size=2, num_workers=2, shuffle=True, **kwargs):
        return DataLoader(examples, batch_size=batch_size, num_workers=num_workers, shuffle=shuffle, **kwargs)
    for x in loader(num_workers=1):
        learn(x)
    staying = loader(persistent_workers=True)
    for again in range(3):
        for x in staying:
            learn(x)
    for x in loader(shuffle=False):
        learn(x)
    for x in loader(Stream(), num_workers=1, shuffle=None):
        learn(x)
    for x in loader(num_workers=1, in_order=False):
        learn(x)
    for x in loader(batch_size=None):
        learn(x)
    # One that is left in the middle, another that takes turns with one that makes its batches here.
    for x, _ in zip(loader(), range(9)):
        learn(x)
    for one, other in zip(loader(prefetch_factor=5), loader(num_workers=0)):
        learn(one)
        learn(other)
    # A sampler that is changed, which is seen behind a choice for no batch, and another that is put in its place.
    source = iter(loader())
    for number in range(60):
        learn(pull(source))
        if number == 9:
            source._index_sampler.sampler.replacement = True
        if number == 19:
            source._next_index()
        if number == 29:
            source._index_sampler = BatchSampler(SequentialSampler(range(40)), 4, False)
    # Batches whose order does not count for a while: what was chosen in that time is not known, nor what was before.
    staying = loader(num_workers=1, persistent_workers=True)
    source = iter(staying)
    for number in range(80):
        learn(pull(source))
        if number in (9, 29):
            source._in_order = number == 29
    source._in_order = False
    source = iter(staying)
    source._in_order = True
    for number in range(20):
        learn(pull(source))
    # The first batch that is asked for is not the first of its pass.
    source = iter(loader())
    source._num_yielded = 3
    for number in range(20):
        learn(pull(source))
    # More than are remembered.
    for x, _ in zip(loader(torch.randn(5000, 8), batch_size=1, prefetch_factor=2100), range(9)):
        learn(x)
    # Batches that nobody trains with.
    with torch.no_grad():
        for x in loader():
            small(x)
    del source
    with open("asked", "w") as file:
        file.write(str(asked))
"""


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
def test_a_core_that_cannot_be_loaded_is_done_without(tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "pytest_traincheck"
    shutil.copytree(BOOTSTRAP.parents[1], copy, ignore=shutil.ignore_patterns("*.abi3.so"))
    (copy / "probe" / "core" / "_core.abi3.so").write_bytes(b"\x7fELF of another machine")
    home = tmp_path / "project"
    home.mkdir()
    (home / "train.py").write_text(PREPARED + "step()")
    environment = {**os.environ, "PYTHONPATH": str(copy / "probe" / "bootstrap"), "OMP_NUM_THREADS": "1"}
    environment["TRAINCHECK_TRACE_DIR"] = str(tmp_path / "run")
    words = [sys.executable, "train.py"]
    done = subprocess.run(words, cwd=home, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (directory,) = (tmp_path / "run").iterdir()
    facts = json.loads((directory / "meta.json").read_text())
    assert (facts["core"], facts["probe_error_count"]) == ("python", 0)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("trained_by", "several", "sure"),
    [("nobody", False, True), ("this", False, True), ("another", False, False), ("this", True, False)],
)
def test_gradients_are_not_read_beside_a_thread_that_trains(trained_by: str, several: bool, sure: bool) -> None:
    """Reading one beside a pass of another thread ends the process, so it is not sure that nothing has changed."""
    core = pytest.importorskip("pytest_traincheck.probe.core._core")
    threads = {"nobody": {}, "this": {threading.get_ident(): set()}, "another": {threading.get_ident() + 1: set()}}
    assert core.nothing_new([], False, True, threads[trained_by], several) is sure
    assert core.nothing_new([], True, False, threads[trained_by], several)


@pytest.mark.usefixtures("compiled")
def test_bytes_have_the_checksum_that_zlib_has() -> None:
    core = pytest.importorskip("pytest_traincheck.probe.core._core")
    bytes_ = random.Random(0).randbytes(9000)
    for size in (*range(300), 1000, 4096, 8999):
        for start in (0, 1, 7):
            for before in (0, 1, 0xFFFFFFFF, 0x12345678):
                part = bytes_[start : start + size]
                assert core.checksum(before, part) == zlib.crc32(part, before), (size, start, before)


@pytest.mark.usefixtures("compiled", "registers")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [1, 15, 4095, 4096, 4097, 4224, 8256, 65536, 65925, 200001])
def test_a_look_finds_what_is_not_finite_and_the_hash_that_python_finds(
    size: int, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = pytest.importorskip("pytest_traincheck.probe.core._core")
    monkeypatch.setattr(digest, "native", None)
    numbers = torch.randn(size, dtype=getattr(torch, dtype), generator=torch.Generator().manual_seed(0))
    state, hashed = core.look(numbers, True, 0)[:2]
    assert (state, hashed) == (digest.NONZERO, digest.digest(numbers))
    for place in {0, size // 2, size - 1}:
        for value in (float("inf"), float("-inf"), float("nan")):
            found = numbers.clone()
            found[place] = value
            assert core.look(found, True, 0) is None, "it is for Python to say what is not finite"
            assert core.look(found, False, 0)[1] == digest.digest(found)
    limits = torch.finfo(numbers.dtype)
    for extreme in (limits.max, limits.min, limits.smallest_normal / 4):
        assert core.look(torch.full_like(numbers, extreme), True, 0)[0] == digest.NONZERO
    assert core.look(torch.full_like(numbers, -0.0), True, 0)[0] == digest.ZERO


MANY_SHAPES = """
import gc
import torch
from torch import nn

torch.manual_seed(0)
layers = nn.ModuleList(nn.Linear(width, width + 1) for width in range(4, 64))
attention = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
transposed = nn.ConvTranspose2d(2, 2, (3, 3), stride=(2, 2), padding=(1, 1), output_padding=(1, 1))
model = nn.ModuleList([layers, attention, transposed])
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)


def lookups():
    (core,) = (each for each in gc.get_objects() if type(each).__name__ == "Core")
    return core.lookups


for step in range(40):
    if step == 20:
        before = lookups()
    optimizer.zero_grad()
    value = torch.ones(3, 4)
    for layer in layers:
        value = layer(value)
    value = value.sum() + attention(torch.ones(2, 3, 8)).sum() + transposed(torch.ones(1, 2, 4, 4)).sum()
    nn.functional.l1_loss(value, torch.zeros(()), reduction="mean").backward()
    optimizer.step()
print("looked up:", before, lookups() - before)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("compiled")
def test_what_has_been_before_is_known_without_its_key(warm_python: WarmPython, tmp_path: Path) -> None:
    """However many different calls a step has, and however much they are given."""
    (tmp_path / "train.py").write_text(MANY_SHAPES)
    environment = {**os.environ, "PYTHONPATH": str(BOOTSTRAP), "TRAINCHECK_TRACE_DIR": str(tmp_path / "run")}
    done = warm_python.run(["train.py"], cwd=tmp_path, env={**environment, "TRAINCHECK_CORE": "c"})
    assert (done.returncode, done.stderr) == (0, "")
    first, later = map(int, done.stdout.rpartition("looked up:")[2].split())
    assert first > 120, "calls and results of sixty layers, each of which is new once"
    assert later == 0
