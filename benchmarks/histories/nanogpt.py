"""nanoGPT: its train.py for eight steps on made-up tokens, with an evaluation in between and a checkpoint.

Settings that a commit does not know yet are left out, and the seed that train.py fixes is replaced by ours.
"""

import argparse
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import torch

SETTINGS = {
    "out_dir": "out",
    "dataset": "made_up",
    "device": "cpu",
    "dtype": "float32",
    "compile": False,
    "compile_model": False,
    "wandb_log": False,
    "eval_interval": 4,
    "eval_iters": 2,
    "log_interval": 1,
    "batch_size": 4,
    "block_size": 16,
    "n_layer": 2,
    "n_head": 2,
    "n_embd": 32,
    "dropout": 0.1,
    "gradient_accumulation_steps": 1,
    "learning_rate": 1e-3,
    "max_iters": 8,
    "warmup_iters": 3,
    "lr_decay_iters": 8,
    "min_lr": 1e-4,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    arguments = parser.parse_args()
    data = Path("data", SETTINGS["dataset"])
    data.mkdir(parents=True)
    generator = np.random.default_rng(arguments.seed)
    for name, length in (("train.bin", 2000), ("val.bin", 400)):
        (np.cumsum(generator.integers(1, 3, length)) % 50).astype(np.uint16).tofile(data / name)
    own = {**SETTINGS, **dict(each.split("=") for each in arguments.set)}
    text = Path("train.py").read_text(encoding="utf-8")
    sys.argv = ["train.py"]
    sys.argv += [f"--{name}={value}" for name, value in own.items() if re.search(rf"^{name} *=", text, re.MULTILINE)]
    seeded = torch.manual_seed
    torch.manual_seed = lambda _: seeded(arguments.seed)
    sys.path.insert(0, ".")
    runpy.run_path("train.py", run_name="__main__")


main()
