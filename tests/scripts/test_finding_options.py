"""Options of programs that train are found by their source, whatever way they are declared."""

from __future__ import annotations

from repositories import LOOP, Repository, script

from pytest_traincheck.scripts.model import Style
from pytest_traincheck.scripts.proposal import propose


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
