"""Pictures of a run: nothing is written, since they are of no interest here."""


def save_image(*_, **__):
    """Draws nothing."""


def make_grid(tensor, *_, **__):
    """The first picture, as if it were all of them."""
    return tensor[0]
