"""What the candidate never came to is known from what always leaves a trace, and from nothing else."""

from __future__ import annotations

import textwrap

import pytest

from pytest_traincheck.check.blocks import ChangedFile
from pytest_traincheck.check.ran import Ran
from pytest_traincheck.check.unreached import Unreached

NETS = """\
import torch
from torch import nn
from torch.nn import functional as F


class Dense(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(4, width)

    def forward(self, x):
        return F.dropout(self.layer(x), 0.1, self.training)


@register("conv")
class Convolving(nn.Module):
    kernel = 3

    def __init__(self, width, drop=0.1):
        super().__init__()
        self.layer = nn.Conv1d(1, width, self.kernel)
        self.drop = drop

    def forward(self, x):
        def thinned(x):
            return F.dropout(x, self.drop, self.training)

        return thinned(self.layer(x))

    @staticmethod
    def shaped(x):
        return x.unsqueeze(1) * 2


class Halved(nn.Module):
    def forward(self, x):
        return x / 2


def build(name, rate):
    if name == "dense":
        net = Dense(8)
        optimizer = torch.optim.AdamW(net.parameters(), lr=rate)
    else:
        net = Convolving(8)
        optimizer = torch.optim.SGD(net.parameters(), lr=rate, momentum=0.9)
    return net, optimizer


def fit_apart(net, x, y, rate=0.1):
    scale = 2
    optimizer = torch.optim.SGD(net.parameters(), lr=rate)
    for _ in range(4):
        loss = F.mse_loss(net(x) * scale, y)
        loss.backward()
        optimizer.step()


def fit(net, optimizer, x, y):
    loss = F.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
"""

RUNNING = (
    "nn.Linear(4, width)", "F.dropout(self.layer(x), 0", "torch.optim.AdamW", "    loss = F.mse_loss(net(x), y)",
    "    loss.backward()\n    optimizer.step()\n",
)  # fmt: skip
"""What leaves a trace where the dense net is trained with `fit`."""


def ran(text: str, *marks: str, classes: tuple[str, ...] = ("Dense", "AdamW"), functions: tuple[str, ...] = ()) -> Ran:
    """A run of `nets.py` that left a trace where these words, if they are there, stand last."""
    lines = frozenset(1 + text[: text.rindex(words)].count("\n") for words in marks if words in text)
    return Ran({"nets.py": lines}, frozenset(functions), frozenset(classes), frozenset({"nets.py"}), frozenset())


def never_ran(old: str, new: str, *marks: str, functions: tuple[str, ...] = ()) -> list[bool]:
    """Of each change in `nets.py`, whether the candidate never came to it."""
    file = ChangedFile("nets.py", old, new)
    told = Unreached(ran(new, *(marks or RUNNING), functions=functions), {"nets.py": new})
    return [told.never_ran(file, block) for block in file.blocks]


def changed(before: str, after: str, text: str = NETS) -> list[bool]:
    assert text.count(before) == 1
    return never_ran(text, text.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("F.dropout(x, self.drop", "F.dropout(x, self.drop / 2"),
        ("        self.drop = drop\n", ""),
        ("width, drop=0.1", "width, drop=0.2"),
        ("        self.drop = drop\n", "        self.drop = drop\n        self.more = 1\n"),
        ("nn.Conv1d(1, width", "nn.Conv1d(1, 2 * width"),
        ("momentum=0.9", "momentum=0.5"),
        ("net = Convolving(8)", "net = Convolving(16)"),
        ("net(x) * scale", "net(x) + scale"),
        ("scale = 2", "scale = 3"),
        ("rate=0.1", "rate=0.2"),
    ],
    ids=[
        "method",
        "removed",
        "default",
        "added",
        "constructor",
        "branch",
        "made in a branch",
        "loop",
        "before",
        "head",
    ],
)
def test_what_lies_beside_a_call_that_left_nothing_never_ran(before: str, after: str) -> None:
    assert changed(before, after) == [True]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('@register("conv")', '@register("dense")'),
        ("kernel = 3", "kernel = 5"),
        ("class Convolving(nn.Module)", "class Convolving(Dense)"),
        ("return x.unsqueeze(1) * 2", "return x.unsqueeze(1)"),
        ("return x / 2", "return x / 3"),
        ("F.dropout(self.layer(x), 0.1", "F.dropout(self.layer(x), 0.2"),
        ('name == "dense"', 'name == "conv"'),
        ("    return net, optimizer\n", "    return net, 1\n"),
        ("net = Dense(8)", "net = Dense(16)"),
        ("    loss.backward()\n    optimizer.step()\n", "    optimizer.step()\n"),
    ],
    ids=[
        "decorator", "attribute of a class", "bases", "static method", "class that leaves nothing",
        "class that is used", "condition", "behind a branch", "branch that ran", "function that ran",
    ],
)  # fmt: skip
def test_what_may_have_run_or_have_kept_it_from_running_is_not_ruled_out(before: str, after: str) -> None:
    assert changed(before, after) == [False]


def test_a_class_that_nobody_uses_is_new() -> None:
    wide = "class Wide(nn.Module):\n    def __init__(self):\n        self.layer = nn.Linear(4, 4)\n\n\n"
    new = NETS.replace("class Halved", wide + "class Halved")
    assert never_ran(NETS, new) == [True]
    assert never_ran(NETS, new.replace("class Wide", '@register("dense")\nclass Wide')) == [False]
    assert never_ran(new, NETS) == [False], "what is gone may have run before"


def test_a_class_whose_subclass_is_made_has_been_made() -> None:
    old = NETS + "\n\nclass Deep(Convolving):\n    pass\n"
    new = old.replace("self.drop = drop", "self.drop = 0")
    assert never_ran(old, new, *RUNNING) == [True]
    assert never_ran(old, new, *RUNNING, "nn.Conv1d(1") == [False]


def test_a_class_that_was_seen_was_made_however_that_was() -> None:
    """Loaded as a whole from a file: its constructor never ran."""
    new = NETS.replace("self.drop, self.training", "0.2, self.training")
    file = ChangedFile("nets.py", NETS, new)
    told = Unreached(ran(new, *RUNNING, classes=("Convolving",)), {"nets.py": new})
    assert not told.never_ran(file, file.blocks[0])


def test_a_constructor_that_may_return_early_shows_nothing() -> None:
    old = NETS.replace(
        "        self.layer = nn.Conv1d", "        if width == 0:\n            return\n        self.layer = nn.Conv1d"
    )
    assert never_ran(old, old.replace("self.drop, self.training", "0.2, self.training")) == [False]


def test_backward_of_the_users_own_shows_nothing() -> None:
    text = "import lab\n\ndef fit(loss, scale):\n    scale = 2 * scale\n    loss.backward()\n"
    new = text.replace("2 *", "3 *")
    assert never_ran(text, new, "import lab") == [True]
    assert never_ran(text, new, "import lab", functions=("backward",)) == [False]
    own = "class Scaled:\n    def backward(self):\n        pass\n\n\n"
    assert never_ran(own + text, own + new, "import lab") == [False]


def test_where_errors_are_caught_a_line_may_be_why_the_next_ones_are_missing() -> None:
    text = textwrap.dedent(
        """\
        import torch
        try:
            fused = True
            optimizer = torch.optim.SGD([], lr=0.1, fused=fused)
        except RuntimeError:
            optimizer = None
        """
    )
    assert never_ran(text, text.replace("True", "False"), "import torch") == [False]
    assert never_ran(text, text.replace("lr=0.1", "lr=0.2"), "import torch") == [False]


def test_a_call_that_need_not_be_made_shows_nothing() -> None:
    for made in (
        "use and torch.optim.SGD([])",
        "torch.optim.SGD([]) if use else None",
        "[torch.optim.SGD(p) for p in use]",
    ):
        text = f"import torch\n\ndef fit(use, rate):\n    rate = 2 * rate\n    return {made}\n"
        assert never_ran(text, text.replace("2 *", "3 *"), "import torch") == [False]
    text = "import torch\n\ndef fit(use):\n    use = check(use)\n    return torch.optim.SGD(use)\n"
    assert never_ran(text, text.replace("check(", "refuse("), "import torch") == [False], "it may not come back"


def test_a_file_that_was_not_imported_and_one_that_is_no_python_are_left_to_others() -> None:
    new = NETS.replace("momentum=0.9", "momentum=0.5")
    for path in ("other.py", "nets.yaml"):
        file = ChangedFile(path, NETS, new)
        assert not Unreached(ran(new, *RUNNING), {"nets.py": new}).never_ran(file, file.blocks[0])
