"""The configuration file: found, read, and every mistake named with its file, its key and the remedy."""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_traincheck import config
from pytest_traincheck.config import Accept, Config, ConfigError, PipelineSpec, load

FULL = """
[tool.traincheck]
golden = "merge-base:main"
store = "tests/goldens"
python = "python3.12"
golden_python = ".venv-old/bin/python"
candidate_python = "/opt/new/bin/python"
strict = true
jobs = "auto"

[tool.traincheck.pipelines.mnist]
run = "python pipeline.py --steps 8"
cwd = "examples/mnist"
seed_arg = "--seed {seed}"
seeds = [3, 5]
vary = ["--batch-size 16"]
env = { OMP_NUM_THREADS = "1" }
timeout = 12.5

[tool.traincheck.pipelines.gpt-2]
run = "torchrun --nproc-per-node 2 train.py"
seed_env = "SEED"

[[tool.traincheck.accept]]
invariant = "ab12*"
owner = "vision"
reason = "new schedule"
expires = 2027-01-31

[tool.traincheck.policy]
Band = "warn"
"torch.optim.AdamW.step" = "off"
"""


def write(directory: Path, text: str, name: str = "pyproject.toml") -> Path:
    path = directory / name
    path.write_text(text, encoding="utf-8")
    return path


def refused(directory: Path, text: str) -> str:
    """What is said about a file that is wrong; it always names the file."""
    path = write(directory, text, "traincheck.toml")
    with pytest.raises(ConfigError) as caught:
        load(directory)
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_an_exception_may_be_for_one_value(tmp_path: Path) -> None:
    text = "[pipelines.net]\nrun = 'python train.py'\n[[accept]]\ninvariant = 'ab12'\nowner = 'a'\nreason = 'b'\n"
    path = tmp_path / "traincheck.toml"
    path.write_text(f"{text}expires = 2099-01-01\nvalue = '0.002'\n")
    (entry,) = load(tmp_path).accept
    assert (entry.value, entry.name) == ("0.002", "ab12 = 0.002")
    path.write_text(f"{text}expires = 2099-01-01\nvalue = 0.002\n")
    with pytest.raises(ConfigError, match="value"):
        load(tmp_path)


def test_a_full_file(tmp_path: Path) -> None:
    source = write(tmp_path, FULL)
    assert load(tmp_path) == Config(
        root=tmp_path,
        source=source,
        golden="merge-base:main",
        store=tmp_path / "tests/goldens",
        python="python3.12",
        golden_python=str(tmp_path / ".venv-old/bin/python"),
        candidate_python="/opt/new/bin/python",
        pipelines={
            "mnist": PipelineSpec(
                name="mnist",
                run="python pipeline.py --steps 8",
                cwd="examples/mnist",
                seed_arg="--seed {seed}",
                seeds=(3, 5),
                vary=("--batch-size 16",),
                env={"OMP_NUM_THREADS": "1"},
                timeout=12.5,
            ),
            "gpt-2": PipelineSpec(name="gpt-2", run="torchrun --nproc-per-node 2 train.py", seed_env="SEED"),
        },
        accept=(Accept("ab12*", "vision", "new schedule", datetime.date(2027, 1, 31)),),
        policy={"Band": "warn", "torch.optim.AdamW.step": "off"},
        strict=True,
        jobs="auto",
    )


def test_the_defaults(tmp_path: Path) -> None:
    write(tmp_path, '[pipelines.a]\nrun = "python a.py"\n', "traincheck.toml")
    loaded = load(tmp_path)
    assert (loaded.golden, loaded.store, loaded.python) == ("stored", tmp_path / "golden_invariants", None)
    assert loaded.strict is False
    assert loaded.jobs is None
    spec = loaded.pipelines["a"]
    assert (spec.seeds, spec.timeout, spec.cwd, spec.seed_arg, spec.vary) == ((0, 1, 2), 300.0, ".", None, ())


def test_the_same_content_in_a_standalone_file(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    write(tmp_path / "one", FULL)
    write(tmp_path / "two", FULL.replace("tool.traincheck.", "").replace("[tool.traincheck]", ""), "traincheck.toml")
    one, two = load(tmp_path / "one"), load(tmp_path / "two")
    assert (one.pipelines, one.accept, one.policy) == (two.pipelines, two.accept, two.policy)


def test_the_nearest_file_above_counts_and_others_are_passed_by(tmp_path: Path) -> None:
    source = write(tmp_path, FULL)
    below = tmp_path / "package" / "deep"
    below.mkdir(parents=True)
    write(tmp_path / "package", '[project]\nname = "inner"\n')
    assert load(below).source == source
    assert load(tmp_path / "absent", source).source == source


def test_no_file_at_all_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path)
    said = str(caught.value)
    assert str(tmp_path) in said
    example = said[said.index("[tool.traincheck") :]
    assert len(example.splitlines()) == 5
    write(tmp_path, example)
    assert load(tmp_path).pipelines, "what it says to write must work"


def test_a_file_that_is_named_must_be_there_and_be_ours(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path, tmp_path / "pyproject.toml")
    other = write(tmp_path, "[project]\n")
    with pytest.raises(ConfigError, match=r"no \[tool.traincheck\] table"):
        load(tmp_path, other)


def test_two_files_side_by_side_are_not_guessed(tmp_path: Path) -> None:
    write(tmp_path, FULL)
    write(tmp_path, "", "traincheck.toml")
    with pytest.raises(ConfigError, match="Keep one of them"):
        load(tmp_path)


def test_two_pipelines_with_one_name(tmp_path: Path) -> None:
    for prefix, name in (("", "traincheck.toml"), ("tool.traincheck.", "pyproject.toml")):
        text = f'[{prefix}pipelines.mnist]\nrun = "a"\n\n[{prefix}pipelines."mnist"]  # again\nrun = "b"\n'
        source = write(tmp_path, text, name)
        with pytest.raises(ConfigError) as caught:
            load(tmp_path, source)
        assert str(source) in str(caught.value)
        assert "two pipelines are called `mnist` (lines 1 and 4)" in str(caught.value)
        assert "Rename one" in str(caught.value)


def test_names_that_differ_by_case_only_would_share_a_file(tmp_path: Path) -> None:
    said = refused(tmp_path, '[pipelines.Mnist]\nrun = "a"\n[pipelines.mnist]\nrun = "b"\n')
    assert "`pipelines.mnist`" in said
    assert "`Mnist`" in said


def test_one_command_may_have_two_names(tmp_path: Path) -> None:
    write(tmp_path, '[pipelines.a]\nrun = "same"\n[pipelines.b]\nrun = "same"\n', "traincheck.toml")
    assert list(load(tmp_path).pipelines) == ["a", "b"]


@pytest.mark.parametrize(
    "name", ["../evil", "a/b", ".hidden", "-rf", "", "a b", "name.", "x" * 81, "größe", "a\\u0000b", "a\\nb"]
)
def test_names_that_are_no_file_names(tmp_path: Path, name: str) -> None:
    assert "no usable pipeline name" in refused(tmp_path, f'[pipelines."{name}"]\nrun = "a"\n')


PIPELINE = '[pipelines.a]\nrun = "python a.py"\n'


MISTAKES = [
    ("[pipelines.a]\ncwd = '.'\n", "pipelines.a.run", "python train.py"),
    ("[pipelines.a]\nrun = ''\n", "pipelines.a.run", "Give it a value"),
    ("[pipelines.a]\nrun = ['python', 'a.py']\n", "pipelines.a.run", "quotes"),
    ("[pipelines]\na = 'python a.py'\n", "pipelines.a", "must be a table"),
    (PIPELINE + "seed_arg = '--seed'\n", "pipelines.a.seed_arg", "--seed {seed}"),
    (PIPELINE + "seed_env = 'MY SEED'\n", "pipelines.a.seed_env", 'seed_env = "SEED"'),
    (PIPELINE + "seeds = []\n", "pipelines.a.seeds", "seeds = [0, 1, 2]"),
    (PIPELINE + "seeds = [1, 1]\n", "pipelines.a.seeds", "once"),
    (PIPELINE + "seeds = [true]\n", "pipelines.a.seeds", "whole numbers"),
    (PIPELINE + "seeds = ['0']\n", "pipelines.a.seeds", "whole numbers"),
    (PIPELINE + "seeds = 3\n", "pipelines.a.seeds", "whole numbers"),
    (PIPELINE + "seed_by = 'me'\n", "pipelines.a.seed_by", 'seed_by = "probe"'),
    (PIPELINE + "steps = 0\n", "pipelines.a.steps", "steps = 8"),
    (PIPELINE + "steps = true\n", "pipelines.a.steps", "steps = 8"),
    (PIPELINE + "steps = '8'\n", "pipelines.a.steps", "steps = 8"),
    (PIPELINE + "timeout = 0\n", "pipelines.a.timeout", "above 0"),
    (PIPELINE + "timeout = nan\n", "pipelines.a.timeout", "above 0"),
    (PIPELINE + "timeout = inf\n", "pipelines.a.timeout", "above 0"),
    (PIPELINE + "timeout = '5m'\n", "pipelines.a.timeout", "seconds"),
    (PIPELINE + "vary = '--x'\n", "pipelines.a.vary", "array of strings"),
    (PIPELINE + "env = { THREADS = 1 }\n", "pipelines.a.env.THREADS", 'THREADS = "1"'),
    (PIPELINE + "env = { 'A B' = '1' }\n", "pipelines.a.env.A B", "letters"),
    (PIPELINE + "cwd = '../elsewhere'\n", "pipelines.a.cwd", "below the directory"),
    (PIPELINE + "cwd = 'a/../../b'\n", "pipelines.a.cwd", "below the directory"),
    (PIPELINE + "cwd = '/tmp'\n", "pipelines.a.cwd", "below the directory"),
    ("store = '/tmp'\n", "store", "below the directory"),
    ("golden = '-x'\n", "golden", "merge-base:REF"),
    ("golden = 3\n", "golden", "quotes"),
    ("strict = 'yes'\n", "strict", "strict = true or strict = false"),
    ("jobs = 0\n", "jobs", "jobs = 2"),
    ("jobs = 'all'\n", "jobs", "jobs = 2"),
    ("jobs = '2'\n", "jobs", "jobs = 2"),
    ("jobs = true\n", "jobs", "jobs = 2"),
    ("[pipelines.net]\nrun = 'x'\nalone = 1\n", "pipelines.net.alone", "alone = true or alone = false"),
    ("python = '~nobody-of-that-name/python'\n", "python", "in full"),
    ("[policy]\nBand = 'wran'\n", "policy.Band", "`warn`"),
    ("[policy]\nBand = true\n", "policy.Band", '"fail", "warn" or "off"'),
    ("accept = 3\n", "accept", "[[tool.traincheck.accept]]"),
    ("[[accept]]\ninvariant = 'x'\n", "accept[1].owner", "needs invariant, owner, reason, expires"),
    (
        "[[accept]]\ninvariant = 'x'\nowner = 'o'\nreason = 'r'\nexpires = 'soon'\n",
        "accept[1].expires",
        "expires = 2027-01-31",
    ),
    (
        "[[accept]]\ninvariant = 'x'\nowner = 'o'\nreason = 'r'\nexpires = 2027-01-01T00:00:00\n",
        "accept[1].expires",
        "expires = 2027-01-31",
    ),
    ("[pipelines.a]\nrum = 'x'\n", "pipelines.a.rum", "did you mean `run`?"),
    ("[pipelines.a]\nrun = 'x'\nseed-arg = '{seed}'\n", "pipelines.a.seed-arg", "did you mean `seed_arg`?"),
    ("[pipeline.a]\nrun = 'x'\n", "pipeline", "did you mean `pipelines`?"),
    ("[[accept]]\ninvariants = 'x'\n", "accept[1].invariants", "did you mean `invariant`?"),
    ("zzz = 1\n", "zzz", "Known here: golden, store"),
]
"""What is wrong, the key that is named, and a part of what to do."""


@pytest.mark.parametrize(("text", "key", "remedy"), MISTAKES)
def test_each_mistake_names_its_key_and_the_remedy(tmp_path: Path, text: str, key: str, remedy: str) -> None:
    said = refused(tmp_path, text)
    assert f"`{key}`" in said
    assert remedy in said


def test_broken_files(tmp_path: Path) -> None:
    assert "not valid TOML" in refused(tmp_path, "[pipelines.a\n")
    (tmp_path / "traincheck.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-8"):
        load(tmp_path)
    (tmp_path / "traincheck.toml").unlink()
    write(tmp_path, "[tool]\ntraincheck = 3\n")
    with pytest.raises(ConfigError, match="must be a table"):
        load(tmp_path)


KNOWN = {"run", "cwd", "seed_arg", "seed_env", "seed_by", "seeds", "vary", "env", "timeout", "steps", "link", "alone"}


@settings(deadline=None)
@given(st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True).filter(lambda key: key not in KNOWN))
def test_no_unknown_key_is_ever_taken(tmp_path_factory: pytest.TempPathFactory, key: str) -> None:
    said = refused(tmp_path_factory.mktemp("c"), f'[pipelines.a]\nrun = "x"\n{key} = 1\n')
    assert f"`pipelines.a.{key}` is not a known key" in said


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    directory = tmp_path_factory.mktemp("c")
    try:
        (directory / "traincheck.toml").write_text(text, encoding="utf-8")
    except UnicodeEncodeError:
        return
    try:
        assert load(directory).root == directory
    except ConfigError:
        return


def test_the_fingerprint_is_of_what_is_run() -> None:
    spec = PipelineSpec("a", "python a.py", env={"A": "1", "B": "2"})
    same = [
        PipelineSpec("other", "python a.py", env={"B": "2", "A": "1"}),
        PipelineSpec("a", "python a.py", env={"A": "1", "B": "2"}, seeds=(9,), timeout=1.0, vary=("--x",)),
    ]
    other = [
        PipelineSpec("a", "python b.py", env={"A": "1", "B": "2"}),
        PipelineSpec("a", "python a.py", env={"A": "1"}),
        PipelineSpec("a", "python a.py", cwd="sub", env={"A": "1", "B": "2"}),
        PipelineSpec("a", "python a.py", seed_arg="--seed {seed}", env={"A": "1", "B": "2"}),
        PipelineSpec("a", "python a.py", seed_env="SEED", env={"A": "1", "B": "2"}),
        PipelineSpec("a", "python a.py", seed_by="probe", env={"A": "1", "B": "2"}),
        PipelineSpec("a", "python a.py", steps=8, env={"A": "1", "B": "2"}),
        PipelineSpec("a", "python a.py", steps=9, env={"A": "1", "B": "2"}),
    ]
    # Goldens that were learned before there was a limit keep their hash.
    assert PipelineSpec("a", "python a.py").fingerprint() == "1595843fab70987b"
    assert all(spec.fingerprint() == each.fingerprint() for each in same)
    assert len({each.fingerprint() for each in [spec, *other]}) == 1 + len(other)


def test_reading_it_loads_nothing_heavy() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(config.__file__).parent.parent)!r}); "
        "import pytest_traincheck.config; "
        "print([name for name in ('torch', 'numpy', 'git', 'rich', 'psutil') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
