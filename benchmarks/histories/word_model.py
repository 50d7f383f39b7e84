"""The word language model of pytorch/examples: its main.py on a made-up text, for one short epoch."""

import argparse
import functools
import random
import runpy
import sys
from pathlib import Path

import torch


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    words = random.Random(seed)
    Path("text").mkdir()
    for name, lines in (("train.txt", 40), ("valid.txt", 12), ("test.txt", 12)):
        text = [" ".join(f"word{words.randrange(30)}" for _ in range(9)) for _ in range(lines)]
        text[0] = " ".join(f"word{number}" for number in range(30))
        Path("text", name).write_text("\n".join(text) + "\n", encoding="utf-8")
    # The whole model is saved, as one did before torch asked for a sign of trust.
    torch.load = functools.partial(torch.load, weights_only=False)
    sys.argv = ["main.py", "--data", "text", "--epochs", "1", "--batch_size", "6", "--bptt", "7", "--emsize", "16"]
    sys.argv += ["--nhid", "16", "--nlayers", "1", "--lr", "2", "--log-interval", "4", "--seed", str(seed)]
    sys.path.insert(0, ".")
    runpy.run_path("main.py", run_name="__main__")


main()
