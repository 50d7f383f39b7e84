"""Public training scripts as `public.toml` names them, and the trees in which they run."""

from __future__ import annotations

import importlib.util
import shlex
import shutil
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

from measure import environment, run
from trees import checkout, put

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = Path(__file__).with_name("public.toml")
HELP = Path(__file__).with_name("public")


@dataclass(frozen=True)
class Finding:
    """What somebody found who looked at one finding: `verdict` is right, wrong or debatable, of the finding."""

    rule: str
    verdict: str
    because: str


@dataclass(frozen=True)
class Program:
    """One script of a public repository, and how it is made to run here; the fields are those of `public.toml`."""

    name: str
    repository: str
    commit: str
    folder: str
    script: str
    run: str
    library: str
    shows: str
    held_out: bool
    paths: tuple[str, ...] = ()
    prepare: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    steps: int | None = None
    findings: tuple[Finding, ...] = ()

    @property
    def missing(self) -> list[str]:
        """The packages it needs that this interpreter does not have."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    @property
    def address(self) -> str:
        """Where the script can be read."""
        path = self.script if self.folder == "." else f"{self.folder}/{self.script}"
        return f"https://github.com/{self.repository}/blob/{self.commit}/{path}"


def load_programs() -> list[Program]:
    """The programs in the order of the table; every second one is held out."""
    tables = tomllib.loads(TABLE.read_text(encoding="utf-8"))["program"]
    lists = ("paths", "prepare", "stand_ins", "needs")
    return [
        Program(
            **{key: tuple(value) if key in lists else value for key, value in table.items() if key != "finding"},
            held_out=bool(number % 2),
            findings=tuple(Finding(**finding) for finding in table.get("finding", ())),
        )
        for number, table in enumerate(tables)
    ]


@dataclass(frozen=True)
class Tree:
    """A program's files and data below `root`, ready to be run once."""

    program: Program
    root: Path

    @property
    def folder(self) -> Path:
        """Where the command is started."""
        return self.root / "tree" / self.program.folder

    @property
    def command(self) -> str:
        """The command, with a port that is free now."""
        return self.program.run.replace("{port}", str(free_port()))

    @property
    def variables(self) -> dict[str, str]:
        """What its environment has beside that of every measured command: no network, no chance, the stand-ins."""
        own = dict(self.program.env)
        path = [str(self.root / "stand_ins")]
        if "PYTHONPATH" in own:
            path.append(str((self.folder / own.pop("PYTHONPATH")).resolve()))
        fixed = {
            "PYTHONPATH": ":".join(path),
            "PYTHONHASHSEED": "0",
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HOME": str(self.root / "hub"),
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        limit = {"PUBLIC_STEPS": str(self.program.steps)} if self.program.steps else {}
        return {**fixed, **own, **limit}

    def remove(self) -> None:
        """The files that it ran with; a trace below `root` stays."""
        for name in ("tree", "stand_ins", "hub"):
            shutil.rmtree(self.root / name, ignore_errors=True)


def make_tree(program: Program, repositories: Path, root: Path, *, digested: bool = False) -> Tree:
    """Checks the program out below `root`, puts its stand-ins beside it, and makes its data.

    With `digested` it prints a digest of its training, and ends by itself after its steps.

    Raises:
        SystemExit: if there is no clone, or no such commit in it, or the data cannot be made.
    """
    tree = Tree(program, root)
    tree.remove()
    (root / "tree").mkdir(parents=True)
    (root / "stand_ins").mkdir()
    paths = program.paths or (() if program.folder == "." else (program.folder,))
    checkout(clone(repositories, program), program.commit, paths, root / "tree")
    for name in ("sitecustomize.py", *program.stand_ins) if digested else program.stand_ins:
        put(HELP / "stand_ins" / name, root / "stand_ins")
    for words in program.prepare:
        script, *arguments = shlex.split(words)
        command = [sys.executable, HELP / "prepare" / script, *arguments]
        run(command, cwd=tree.folder, timeout=120.0).checked()
    return tree


def clone(repositories: Path, program: Program) -> Path:
    """The clone of a program's repository.

    Raises:
        SystemExit: if there is none below the directory that the user named.
    """
    name = program.repository.rpartition("/")[2]
    for found in (repositories / name, repositories / f"{name}.git"):
        if found.is_dir():
            return found
    raise SystemExit(
        f"there is no clone of {program.repository} in {repositories}. Run `git clone "
        f"https://github.com/{program.repository}` there, or leave its programs out with --only."
    )


def free_port() -> int:
    """A port of this machine that nobody listens at."""
    with socket.socket() as probing:
        probing.bind(("127.0.0.1", 0))
        return int(probing.getsockname()[1])


def plain(tree: Tree, timeout: float) -> tuple[int, float, str]:
    """Exit status, seconds and standard output of the program without the probe."""
    words = f"exec {tree.command} 2>{shlex.quote(str(tree.root / 'stderr.txt'))}"
    done = run(["sh", "-c", words], cwd=tree.folder, env=environment(tree.variables), timeout=timeout)
    return done.returncode, done.wall, done.output
