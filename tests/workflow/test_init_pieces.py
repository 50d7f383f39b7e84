"""Pieces of `traincheck init`: what a try teaches, what is linked, what is written, what is said."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pytest_traincheck.check.result import RunError
from pytest_traincheck.config import ConfigError, load
from pytest_traincheck.launch.footprint import Footprint
from pytest_traincheck.scripts.model import Evidence, Option, Script, Style
from pytest_traincheck.scripts.proposal import Proposal, given, propose, script_in
from pytest_traincheck.workflow.init_causes import cause
from pytest_traincheck.workflow.init_config import SEEDS, spec_of, with_pipeline
from pytest_traincheck.workflow.init_words import hints
from pytest_traincheck.workflow.starting import covered, links, look_around
from pytest_traincheck.workflow.trial import Trial, mended, shortened

SAVE = Option("save", "--save", "model.pt", "str")
LOG = Option("log_dir", "--log-dir", "runs/logs", "str")
SCRIPT = Script(
    "train.py",
    Evidence("a training loop", "train.py:9"),
    Style.OPTIONS,
    (Option("epochs", "--epochs", 90, "int"), SAVE, Option("seed", "--seed", 1, "int")),
    ("train.py",),
    texts=("data", "train.py", "venv"),
)


def wrote(*paths: str) -> Trial:
    return Trial(2.0, 8, 99, 1, True, (Footprint(Path("/tree"), created=paths),))


class TestWhatATryTeaches:
    def test_an_option_whose_default_was_written_goes_elsewhere(self) -> None:
        better = mended(propose(SCRIPT, "net"), wrote("model.pt", "cache.bin"))
        assert better is not None
        assert better.run == "python train.py --epochs 2 --save {tmp}/model.pt"
        assert mended(better, wrote("cache.bin")) is None

    def test_a_directory_below_which_something_was_written(self) -> None:
        script = Script("t.py", SCRIPT.evidence, Style.OPTIONS, (Option("where", "--where", "./runs/a", "str"),))
        better = mended(propose(script, "net"), wrote("runs/a/events.1"))
        assert better is not None
        assert better.run == "python t.py --where {tmp}"
        # Another directory beside it was not written by this option.
        assert mended(propose(script, "net"), wrote("runs/b")) is None

    def test_a_path_that_a_worktree_lacks_is_linked_once(self) -> None:
        failed = Trial(error=RunError("", "no such file"), missing="data")
        better = mended(propose(SCRIPT, "net"), failed)
        assert better is not None
        assert better.link == ("data",)
        assert mended(better, failed) is None

    def test_what_it_writes_over_is_no_data_of_its(self) -> None:
        proposal = Proposal("net", "python train.py", link=("data", "old"))
        over = Trial(2.0, 8, 99, 1, True, (Footprint(Path("/tree"), created=("data/new",), changed=("old/a.pt",)),))
        better = mended(proposal, over)
        assert better is not None
        assert better.link == ("data",)
        assert mended(better, Trial(error=RunError("", "gone"), missing="old"), frozenset({"old"})) is None

    def test_a_training_that_goes_on_gets_a_limit(self) -> None:
        proposal = propose(SCRIPT, "net")
        assert shortened(proposal, Trial(ended=True, steps=4)).steps is None
        assert shortened(proposal, Trial(ended=False, steps=32)).steps == 8


class TestWhyItFailed:
    @pytest.mark.parametrize(
        ("output", "said"),
        [
            ("urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", "the network"),
            ("AssertionError: Torch not compiled with CUDA enabled", "an option: `--device`"),
            ("FileNotFoundError: [Errno 2] No such file or directory: 'data/a.bin'", "There is no `data/a.bin`"),
            ("ModuleNotFoundError: No module named 'sparse'", "Install `sparse`"),
            ("ModuleNotFoundError: No module named 't'", ""),
            ("ValueError: too few rows", ""),
        ],
    )
    def test_in_plain_words(self, output: str, said: str) -> None:
        device = Option("device", "--device", "cuda", "str")
        script = Script("t.py", SCRIPT.evidence, Style.OPTIONS, (device,), ("t.py",))
        found = cause(f"Traceback (most recent call last):\n{output}", propose(script, "net"))
        assert said in found
        assert bool(found) == bool(said)


class TestCommands:
    def test_a_command_is_taken_as_it_is(self) -> None:
        proposal = given("python train.py --epochs 5", SCRIPT, "net")
        assert (proposal.run, proposal.seed_arg, proposal.seed_by) == (
            "python train.py --epochs 5", "--seed {seed}", None,
        )  # fmt: skip
        assert given("python train.py --seed 3", SCRIPT, "net").seed_by == "probe"

    @pytest.mark.parametrize(
        ("command", "path"),
        [
            ("python -m pkg.train --x 1", "pkg/train.py"),
            ("torchrun --nproc-per-node 2 ./train.py", "train.py"),
            ("sh train.sh", ""),
            ("python 'train.py", ""),
        ],
    )
    def test_the_script_of_a_command(self, command: str, path: str) -> None:
        other = Script("pkg/train.py", SCRIPT.evidence, Style.NONE)
        found = script_in(command, {"train.py": SCRIPT, "pkg/train.py": other})
        assert (found.path if found is not None else "") == path


def commit(root: Path) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    for words in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", "-C", str(root), *words], check=True)


class TestPlace:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        (tmp_path / "train.py").write_text("x = 1\n")
        (tmp_path / ".gitignore").write_text("data/\nvenv/\nout/\n")
        commit(tmp_path)
        for path in ("data/a.bin", "venv/pyvenv.cfg", "out/a.pt", "notes/a.txt"):
            (tmp_path / path).parent.mkdir()
            (tmp_path / path).write_text("x")
        return tmp_path

    def test_untracked_data_that_the_source_names_is_linked(self, root: Path) -> None:
        place = look_around(root)
        assert links(place, propose(SCRIPT, "net")) == ("data",)
        assert links(place, Proposal("net", "python train.py --in notes/a.txt")) == ("notes",)

    def test_a_tree_as_it_was_committed(self, root: Path) -> None:
        assert look_around(root).is_committed(["train.py"])
        assert not look_around(root).is_committed(["notes/a.txt"])
        (root / "train.py").write_text("x = 2\n")
        assert not look_around(root).is_committed(["train.py"])

    def test_no_repository(self, tmp_path: Path) -> None:
        (tmp_path / "train.py").write_text("x = 1\n")
        place = look_around(tmp_path)
        assert (place.files, place.clean) == (("train.py",), False)
        assert any("is in no repository" in said.said for said in hints(place, propose(SCRIPT, "net"), None))

    def test_a_script_that_has_a_pipeline(self, root: Path) -> None:
        (root / "traincheck.toml").write_text("[pipelines.net]\nrun = 'python ./train.py --epochs 1'\n")
        place = look_around(root)
        assert covered(place, SCRIPT) == "net"
        assert place.taken == {"net"}


class TestFile:
    def place(self, root: Path, text: str | None, name: str = "pyproject.toml"):
        if text is not None:
            (root / name).write_bytes(text.encode())
        return look_around(root)

    def test_a_file_of_its_own_where_there_is_none(self, tmp_path: Path) -> None:
        text, config = with_pipeline(self.place(tmp_path, None), spec_of(propose(SCRIPT, "net")), None)
        assert config.source.name == "traincheck.toml"
        assert text.endswith(
            '[pipelines.net]\nrun = "python train.py --epochs 2"\nseed_arg = "--seed {seed}"\nseeds = [1, 2, 3]\n'
        )

    @pytest.mark.parametrize(
        "before",
        [
            "[project]\nname = 'x' # mine\n",
            "# no end of line\n[tool.ruff]",
            "[project]\r\nname = 'x'\r\n",
            "[tool.traincheck]\nstrict = true\n\n[tool.traincheck.pipelines.other]\nrun = 'sh x.sh'\n",
        ],
    )
    def test_what_is_there_keeps_every_byte(self, tmp_path: Path, before: str) -> None:
        spec = spec_of(propose(SCRIPT, "net"))
        text, config = with_pipeline(self.place(tmp_path, before), spec, None)
        assert text.startswith(before)
        assert "\r\n" not in text or text.count("\n") == text.count("\r\n")
        (tmp_path / "pyproject.toml").write_bytes(text.encode())
        assert load(tmp_path) == config
        assert config.pipelines["net"] == spec
        assert spec.seeds == SEEDS

    def test_pipelines_on_one_line_are_left_alone(self, tmp_path: Path) -> None:
        place = self.place(tmp_path, "pipelines = {other = {run = 'sh x.sh'}}\n", "traincheck.toml")
        with pytest.raises(ConfigError, match="Write it by hand"):
            with_pipeline(place, spec_of(propose(SCRIPT, "net")), None)

    def test_an_interpreter_and_a_long_run(self, tmp_path: Path) -> None:
        spec = spec_of(propose(SCRIPT, "net"), Trial(seconds=100.0))
        text, config = with_pipeline(self.place(tmp_path, None), spec, ".venv/bin/python")
        assert config.python is not None
        assert text.index("python = ") < text.index("[pipelines.net]")
        assert config.pipelines["net"].timeout == 540


class TestHints:
    def said(self, tmp_path: Path, proposal: Proposal, trial: Trial) -> dict[str, str]:
        (tmp_path / "train.py").write_text("x = 1\n")
        commit(tmp_path)
        return {one.subject: f"{one.said} {one.remedy}" for one in hints(look_around(tmp_path), proposal, trial)}

    def test_nothing_where_nothing_is_missing(self, tmp_path: Path) -> None:
        assert not self.said(tmp_path, propose(SCRIPT, "net"), Trial(3.0, 8, 99, 1, ended=True))

    def test_all_that_may_be_missing(self, tmp_path: Path) -> None:
        script = Script(
            "train.py", SCRIPT.evidence, Style.OPTIONS, (LOG,), ("train.py",), constant_seeds=("train.py:3",)
        )
        proposal = Proposal("net", "python train.py", link=("data",), steps=8, script=script)
        said = self.said(tmp_path, proposal, Trial(90.0, 2, 99, 1, False, wrote("train.py", "x.pt").written))
        assert set(said) == {"no seed", "seed", "no step limit", "few steps", "slow", "outputs", "data"}
        assert "train.py:3 seeds with a constant" in said["seed"]
        assert "they write over `train.py`" in said["outputs"]
        assert "`--log-dir {tmp}`" in said["outputs"]
