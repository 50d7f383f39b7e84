"""attention-is-all-you-need-pytorch: its train.py's epochs on made-up sequences that are to be turned round."""

import argparse
import sys
from types import SimpleNamespace

import torch

PADDING = 1


def batches(count, generator):
    found = []
    for _ in range(count):
        lengths = torch.randint(4, 9, (6,), generator=generator)
        source = torch.full((8, 6), PADDING)
        target = torch.full((10, 6), PADDING)
        for column, length in enumerate(lengths.tolist()):
            words = torch.randint(4, 20, (length,), generator=generator)
            source[:length, column] = words
            target[: length + 2, column] = torch.cat([torch.tensor([2]), words.flip(0), torch.tensor([3])])
        found.append(SimpleNamespace(src=source, trg=target))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    torch.manual_seed(seed)
    sys.path.insert(0, ".")
    import train
    from transformer.Models import Transformer
    from transformer.Optim import ScheduledOptim

    model = Transformer(
        20,
        20,
        src_pad_idx=PADDING,
        trg_pad_idx=PADDING,
        d_word_vec=32,
        d_model=32,
        d_inner=48,
        n_layers=2,
        n_head=2,
        d_k=16,
        d_v=16,
        trg_emb_prj_weight_sharing=False,
        emb_src_trg_weight_sharing=False,
    )
    optimizer = ScheduledOptim(torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-09), 2.0, 32, 20)
    device = torch.device("cpu")
    options = SimpleNamespace(src_pad_idx=PADDING, trg_pad_idx=PADDING)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(2):
        train.train_epoch(model, batches(4, generator), optimizer, options, device, smoothing=False)
        print("validation", train.eval_epoch(model, batches(2, generator), device, options))


if __name__ == "__main__":
    main()
