"""Programs that train are found by their source, and how they are started; others are not."""

from __future__ import annotations

import pytest
from repositories import LOOP, Repository, script

from pytest_traincheck.scripts.proposal import name_for


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
