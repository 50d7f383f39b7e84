"""minGPT as it was in 2020: its Trainer for two short epochs on random sequences, with a test set."""

import argparse

import torch
from mingpt.model import GPT, GPTConfig
from mingpt.trainer import Trainer, TrainerConfig
from mingpt.utils import set_seed
from torch.utils.data import Dataset


class Sequences(Dataset):
    """Sequences that count upwards from a random token, which a small model begins to learn in a few steps."""

    def __init__(self, rows, seed):
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(0, 16, (rows, 1), generator=generator)
        self.tokens = (starts + torch.arange(13)) % 16

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, index):
        return self.tokens[index, :-1], self.tokens[index, 1:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    set_seed(seed)
    model = GPT(GPTConfig(16, 12, n_layer=2, n_head=2, n_embd=32))
    config = TrainerConfig(
        max_epochs=2,
        batch_size=8,
        learning_rate=1e-3,
        lr_decay=True,
        warmup_tokens=200,
        final_tokens=900,
        num_workers=0,
    )
    Trainer(model, Sequences(32, seed), Sequences(16, seed + 100), config).train()


main()
