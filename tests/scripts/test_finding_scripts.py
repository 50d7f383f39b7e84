"""Programs that train are found by their source, whatever way they take their options; others are not."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from pytest_traincheck.scripts.model import Script, Style
from pytest_traincheck.scripts.proposal import name_for, propose
from pytest_traincheck.scripts.search import find

LOOP = """
def fit(net, batches, opt):
    for x, y in batches:
        opt.zero_grad()
        ((net(x) - y) ** 2).mean().backward()
        opt.step()
"""


class Repository:
    """Files in a directory, and what is found in them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> Repository:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(textwrap.dedent(text))
        return self

    def found(self) -> list[Script]:
        paths = [path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file()]
        return find(self.root, paths)

    def only(self) -> Script:
        (script,) = self.found()
        return script

    def command(self) -> str:
        return propose(self.only(), "net").run

    def seed(self) -> str | None:
        return propose(self.only(), "net").seed_arg


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def script(options: str, *, head: str = "import argparse\n") -> str:
    """A script with a loop of its own and these lines in front of it."""
    body = textwrap.dedent(options)
    return f"{head}{LOOP}\ndef main():\n{textwrap.indent(body, '    ')}\n\nif __name__ == '__main__':\n    main()\n"


class TestArgparse:
    def test_few_steps_small_batches_and_a_directory_that_is_removed(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            script("""
                p = argparse.ArgumentParser()
                p.add_argument("-n", "--max-steps", type=int, default=10_000)
                p.add_argument("--batch-size", type=int, default=256)
                p.add_argument("--out-dir", default="runs")
                p.add_argument("--random-seed", type=int, default=7)
                p.add_argument("--lr", type=float, default=0.1)
            """),
        )
        assert repository.command() == "python train.py --max-steps 8 --batch-size 8 --out-dir {tmp}"
        assert repository.seed() == "--random-seed {seed}"
        assert repository.only().style is Style.OPTIONS

    def test_a_small_batch_and_few_workers_are_left_alone(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            script("""
                p = argparse.ArgumentParser()
                p.add_argument("--epochs", type=int, default=90)
                p.add_argument("--bs", type=int, default=4)
                p.add_argument("--num_workers", type=int, default=0)
                p.add_argument("--val-workers", type=int, default=16)
            """),
        )
        assert repository.command() == "python train.py --epochs 2 --val-workers 2"

    def test_words_like_steps_that_mean_something_else(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            script("""
                p = argparse.ArgumentParser()
                p.add_argument("--warmup-steps", type=int, default=100)
                p.add_argument("--log_every_n_steps", type=int, default=100)
                p.add_argument("--eval-epochs", type=int, default=5)
                p.add_argument("--seed-file", default="seeds.txt")
                p.add_argument("--resume-dir", default="checkpoints")
                p.add_argument("--batch-norm", action="store_true")
            """),
        )
        assert repository.command() == "python train.py"
        assert repository.seed() is None

    def test_the_help_says_that_iterations_are_epochs(self, repository: Repository) -> None:
        repository.write(
            "gan.py",
            script("""
                p = argparse.ArgumentParser()
                p.add_argument("--niter", type=int, default=25, help="number of epochs to train for")
                p.add_argument("--batchSize", type=int, default=64)
                p.add_argument("--manualSeed", type=int)
            """),
        )
        assert repository.command() == "python gan.py --niter 2 --batchSize 8"
        assert repository.seed() == "--manualSeed {seed}"

    def test_what_cannot_be_guessed_is_asked_for(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            script("""
                p = argparse.ArgumentParser()
                p.add_argument("corpus")
                p.add_argument("--arch", required=True, choices=["small", "large"])
                p.add_argument("--labels", required=True)
                p.add_argument("extra", nargs="*")
            """),
        )
        proposal = propose(repository.only(), "net")
        assert proposal.run == "python train.py ... --arch small --labels ..."
        assert [option.name for option in proposal.asked] == ["corpus", "labels"]

    def test_the_parser_lies_in_a_module_of_its_own(self, repository: Repository) -> None:
        repository.write("train.py", script("args = options.parse()", head="import options\n"))
        repository.write(
            "options.py",
            """
            from argparse import ArgumentParser

            def parse():
                parser = ArgumentParser()
                parser.add_argument("--iters", type=int, default=5000)
                return parser.parse_args()
            """,
        )
        assert repository.command() == "python train.py --iters 8"


class TestOtherOptions:
    def test_click(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            f"""import click
{LOOP}
@click.command()
@click.option("--epochs", "-e", default=10)
@click.option("--seed", default=0)
@click.option("--shuffle/--no-shuffle", default=True)
def main(epochs, seed, shuffle): ...

if __name__ == "__main__":
    main()
""",
        )
        assert repository.command() == "python train.py --epochs 2"
        assert repository.seed() == "--seed {seed}"

    def test_typer_and_fire(self, repository: Repository) -> None:
        repository.write(
            "a_fit.py",
            f"""import fire
{LOOP}
def run(num_iters: int = 500, batch_size=64, verbose=False, seed: int = 1): ...

if __name__ == "__main__":
    fire.Fire(run)
""",
        )
        repository.write(
            "b_fit.py",
            f"""import typer
app = typer.Typer()
{LOOP}
@app.command()
def run(max_epochs: int = typer.Option(3, help="x"), data: str = "x"): ...

if __name__ == "__main__":
    app()
""",
        )
        first, second = (propose(found, "net") for found in repository.found())
        assert (first.run, first.seed_arg) == ("python a_fit.py --num_iters 8 --batch_size 8", "--seed {seed}")
        assert second.run == "python b_fit.py --max-epochs 2"

    def test_absl(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            script(
                "app.run(lambda _: None)",
                head='from absl import app, flags\nflags.DEFINE_integer("train_steps", 99, "how many")\n',
            ),
        )
        assert repository.command() == "python train.py --train_steps 8"

    def test_fields_of_a_data_class_with_one_in_it(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            f"""from dataclasses import dataclass, field
import tyro

@dataclass
class Optim:
    max_steps: int = 1000

@dataclass
class Args:
    optim: Optim
    batch_size: int = field(default=32)
    seed: int = 3
{LOOP}
if __name__ == "__main__":
    fit(tyro.cli(Args))
""",
        )
        assert repository.command() == "python train.py --optim.max-steps 8 --batch-size 8"

    def test_settings_written_with_an_equals_sign(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            script(
                'cfg = OmegaConf.merge(OmegaConf.load("base.yaml"), OmegaConf.from_cli())',
                head="from omegaconf import OmegaConf\n",
            ),
        )
        repository.write("base.yaml", "optim:\n  max_iters: 900\n  lr: 0.1\nseed: 3\n")
        assert repository.only().style is Style.KEYS
        assert repository.command() == "python train.py optim.max_iters=8"
        assert repository.seed() == "seed={seed}"

    def test_none(self, repository: Repository) -> None:
        repository.write("train.py", LOOP + "\nfit(None, [], None)\n")
        assert repository.only().style is Style.NONE
        assert repository.command() == "python train.py"


class TestHydra:
    MAIN = f"""
import hydra
{LOOP}
@hydra.main(version_base=None, config_path="conf", config_name="top")
def main(cfg): ...

if __name__ == "__main__":
    main()
"""

    def test_the_files_of_the_configuration_name_the_settings(self, repository: Repository) -> None:
        repository.write("app/train.py", self.MAIN)
        repository.write("app/conf/top.yaml", "defaults:\n  - _self_\n  - data: big\n  - run@loop: long\nseed: 1\n")
        repository.write("app/conf/data/big.yaml", "batch_size: 128\nroot: ${paths.data}\n")
        repository.write("app/conf/run/long.yaml", "max_steps: 10000\n")
        command = repository.command()
        assert command.startswith("python app/train.py ")
        assert set(command.split()[2:]) == {"data.batch_size=8", "loop.max_steps=8", "hydra.run.dir={tmp}"}
        assert repository.seed() == "seed={seed}"

    def test_a_class_that_is_registered(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            f"""
import hydra
from dataclasses import dataclass
from hydra.core.config_store import ConfigStore

@dataclass
class Top:
    epochs: int = 10
    seed: int = 0

ConfigStore.instance().store(name="top", node=Top)
{LOOP}
@hydra.main(config_path=None, config_name="top")
def main(cfg): ...

if __name__ == "__main__":
    main()
""",
        )
        assert repository.command() == "python train.py epochs=2 hydra.run.dir={tmp}"

    def test_a_trainer_made_of_settings_gets_those_that_it_does_not_name(self, repository: Repository) -> None:
        main = self.MAIN.replace(LOOP, "\nimport lightning\n\ndef fit(trainer):\n    trainer.fit(None)\n")
        repository.write("train.py", main)
        repository.write("conf/top.yaml", "trainer:\n  _target_: lightning.Trainer\n  max_epochs: 10\n")
        command = repository.command()
        assert " trainer.max_epochs=2 " in command
        assert " +trainer.limit_train_batches=4 " in command

    def test_arguments_of_the_user_come_first(self, repository: Repository) -> None:
        repository.write("train.py", self.MAIN)
        repository.write("conf/top.yaml", "max_steps: 900\nbatch_size: 128\nseed: 1\n")
        found = propose(repository.only(), "net", ("max_steps=20", "+extra=1", "seed=7"))
        assert found.run == "python train.py batch_size=8 hydra.run.dir={tmp} max_steps=20 +extra=1 seed=7"
        assert found.seed_by == "probe"


class TestLibraries:
    def test_a_trainer_with_a_parser_of_the_script(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            """
            import argparse
            import pytorch_lightning as pl

            def main():
                p = argparse.ArgumentParser()
                p.add_argument("--max_epochs", type=int, default=50)
                args = p.parse_args()
                pl.Trainer(max_epochs=args.max_epochs).fit(None)

            if __name__ == "__main__":
                main()
            """,
        )
        assert repository.only().evidence.what == "`Trainer.fit`"
        assert repository.command() == "python train.py --max_epochs 2"

    @pytest.mark.parametrize(("more", "first"), [("", "python main.py fit "), (", run=False", "python main.py --")])
    def test_a_command_line_of_the_trainer(self, repository: Repository, more: str, first: str) -> None:
        repository.write(
            "main.py",
            f"""
            from lightning.pytorch.cli import LightningCLI

            def cli():
                LightningCLI(object, object{more})

            if __name__ == "__main__":
                cli()
            """,
        )
        command = repository.command()
        assert command.startswith(first)
        assert "--trainer.limit_train_batches 4" in command
        assert command.endswith("--trainer.default_root_dir {tmp}")
        assert repository.seed() == "--seed_everything {seed}"

    def test_a_fine_tuning_with_the_arguments_of_its_library(self, repository: Repository) -> None:
        repository.write(
            "finetune.py",
            """
            from dataclasses import dataclass, field
            from transformers import HfArgumentParser, Trainer, TrainingArguments

            @dataclass
            class Data:
                path: str = field(default="rows.json")
                max_train_samples: int = None

            def main():
                data, training = HfArgumentParser((Data, TrainingArguments)).parse_args_into_dataclasses()
                trainer = Trainer(args=training)
                trainer.train()

            if __name__ == "__main__":
                main()
            """,
        )
        words = repository.command()
        assert "--max_train_samples 64" in words
        assert "--max_steps 8" in words
        assert "--output_dir {tmp}" in words
        assert "per_device" not in words
        assert repository.seed() == "--seed {seed}"

    def test_a_class_that_derives_from_the_arguments_of_the_library(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            """
            import transformers
            from dataclasses import dataclass

            @dataclass
            class Own(transformers.TrainingArguments):
                model_max_length: int = 512

            def train():
                parser = transformers.HfArgumentParser(Own)
                trainer = transformers.Trainer(args=parser)
                trainer.train()

            if __name__ == "__main__":
                train()
            """,
        )
        assert "--max_steps 8" in repository.command()

    def test_backward_by_a_library(self, repository: Repository) -> None:
        repository.write(
            "train.py",
            """
            from accelerate import Accelerator

            def main(loss, optimizer):
                Accelerator().backward(loss)
                optimizer.step()

            if __name__ == "__main__":
                main(None, None)
            """,
        )
        assert repository.only().evidence.place == "train.py:5"

    def test_the_mode_of_a_model_is_no_training(self, repository: Repository) -> None:
        repository.write(
            "predict.py",
            """
            from transformers import AutoModel, Trainer

            def main():
                model = AutoModel.from_pretrained("x")
                model.train(False)

            if __name__ == "__main__":
                main()
            """,
        )
        assert not repository.found()


class TestHowItIsStarted:
    def test_a_module_of_a_package(self, repository: Repository) -> None:
        main = script("pass", head="from . import data\n")
        repository.write("vision/__init__.py", "").write("vision/data.py", "").write("vision/train.py", main)
        assert repository.command() == "python -m vision.train"

    def test_a_package_as_a_program(self, repository: Repository) -> None:
        repository.write("vision/__init__.py", "").write("vision/loop.py", LOOP)
        repository.write("vision/__main__.py", "from .loop import fit\nfit(None, [], None)\n")
        assert repository.command() == "python -m vision"
        assert not repository.only().evidence.own

    RANKS = "import torch.distributed as dist\nimport os\n"

    def test_ranks_that_it_cannot_do_without(self, repository: Repository) -> None:
        repository.write("train.py", script('dist.init_process_group("gloo")', head=self.RANKS))
        assert repository.command() == "torchrun --nproc-per-node 2 train.py"

    @pytest.mark.parametrize(
        "line",
        [
            'if "RANK" in os.environ:\n    dist.init_process_group("gloo")',
            'rank = int(os.environ.get("LOCAL_RANK", 0))\ndist.init_process_group("gloo")',
            'dist.init_process_group("gloo")\ntorch.multiprocessing.spawn(fit, nprocs=2)',
        ],
    )
    def test_ranks_that_it_asks_for_or_makes(self, repository: Repository, line: str) -> None:
        repository.write("train.py", script(line, head=self.RANKS))
        assert repository.command() == "python train.py"


class TestWhich:
    def test_the_likeliest_comes_first(self, repository: Repository) -> None:
        for path in ("zoo/eval.py", "zoo/train_net.py", "main.py", "plots.py", "train.py"):
            repository.write(path, script("pass"))
        found = [script.path for script in repository.found()]
        assert found == ["train.py", "zoo/train_net.py", "main.py", "plots.py", "zoo/eval.py"]

    def test_what_is_no_program_or_does_not_train(self, repository: Repository) -> None:
        repository.write("loops.py", LOOP)
        repository.write("tests/test_loop.py", script("pass"))
        repository.write("conftest.py", script("pass"))
        repository.write("serve.py", "if __name__ == '__main__':\n    print('hello')\n")
        repository.write("old.py", "print 'a program of 2009'\n")
        repository.write("noise.py", "\0\0")
        assert not repository.found()

    def test_a_program_that_imports_its_loop(self, repository: Repository) -> None:
        repository.write("src/lib/loop.py", LOOP).write("src/lib/__init__.py", "")
        repository.write("run.py", "from lib.loop import fit\nif __name__ == '__main__':\n    fit(None, [], None)\n")
        assert repository.only().evidence.place == "src/lib/loop.py:5"

    def test_imports_in_a_circle(self, repository: Repository) -> None:
        repository.write("a.py", "import b\nif __name__ == '__main__':\n    b.x()\n").write("b.py", "import a\n" + LOOP)
        assert repository.only().path == "a.py"

    def test_seeds_that_are_constants_are_told(self, repository: Repository) -> None:
        repository.write(
            "train.py", script("torch.manual_seed(0)\ntorch.manual_seed(args.seed)", head="import torch\n")
        )
        (place,) = repository.only().constant_seeds
        assert place.startswith("train.py:")

    @pytest.mark.parametrize(
        ("path", "taken", "name"),
        [
            ("train.py", (), "train"),
            ("mnist/main.py", (), "mnist"),
            ("src/train.py", (), "train"),
            ("src/vision/train.py", (), "vision"),
            ("finetune_bert.py", ("finetune_bert",), "finetune_bert_2"),
            ("run me (now).py", (), "run_me_now"),
        ],
    )
    def test_names(self, repository: Repository, path: str, taken: tuple[str, ...], name: str) -> None:
        repository.write(path, script("pass"))
        assert name_for(repository.only(), "", frozenset(taken)) == name
