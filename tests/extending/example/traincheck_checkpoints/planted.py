"""A mistake to plant. Runs inside the training process, where torch is and perhaps nothing else."""

import torch


def checkpoint_skipped(mutation):
    """Put a `torch.save` that does nothing in the place of torch's own."""

    def make(save):
        def skipped(*args, **kwargs):
            return None if mutation.here() else save(*args, **kwargs)

        return skipped

    mutation.replace(torch, "save", make)


PLANTS = {"checkpoint-skipped": checkpoint_skipped}
