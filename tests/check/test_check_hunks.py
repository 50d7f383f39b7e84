"""The changed lines beside an incident are those that touch its place, or there are none."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_traincheck.check.blocks import MAX_LINES, ChangedFile
from pytest_traincheck.check.hunks import attach
from pytest_traincheck.check.result import ChangedLines, Incident, Violation
from pytest_traincheck.relations.meaning import Deviation
from pytest_traincheck.relations.stored import claim_of
from pytest_traincheck.rules.model import Invariant, Kind, Scope

NEVER, DIFFERENT = Deviation.NEVER, Deviation.DIFFERENT

TRAIN = """\
import torch

def evaluate(model, batches):
    model.eval()
    losses = [loss_of(model, batch) for batch in batches]
    model.train()
    return sum(losses)

def train(model, batches, lr):
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=lr,
        weight_decay=0.1,
    )
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(loss.item())

def parse():
    return {"lr": 0.001, "steps": 8}
"""


def line_of(text: str, words: str) -> int:
    return 1 + next(number for number, line in enumerate(text.splitlines()) if words in line)


RATE: dict[str, Any] = {"rule": "value", "optimizer": "AdamW[Net]", "name": "lr", "value": 0.001}
RELU: dict[str, Any] = {"api": "torch.nn.functional.relu", "dtype": "float32"}
MOVES: dict[str, Any] = {"kind": "parameter", "moves": True, "per": "step"}
RECEIVED: dict[str, Any] = {"within": "torch.optim.AdamW.step", "change": "received"}
DROPOUT: dict[str, Any] = {"api": "torch.nn.functional.dropout", "argument": "p", "value": "0.1"}


def incident(
    subject: str,
    deviation: Deviation,
    source: str,
    relation: str = "Count",
    consequences: tuple[str, ...] = (),
    variables: tuple[str, ...] = (),
    place: str = "",
    **claim: object,
) -> Incident:
    content = claim or {"api": subject, "per": "step", "times": "once"}
    rule = Invariant(relation, subject, claim_of(relation, content), (), Scope.PINNED, Kind.BEHAVIOUR, "", 9, 3)

    def violation(at: str) -> Violation:
        return Violation(rule, "", "", "", 1, "train", (0,), 5, "", variables, at, 1, place, deviation=deviation)

    return Incident("id", 1, violation(source), tuple(violation(at) for at in consequences))


def diff_of(item: Incident, **files: tuple[str, str]) -> ChangedLines | None:
    (found,) = attach([item], {name.replace("__", "/") + ".py": texts for name, texts in files.items()})
    return found.diff


def changed(diff: ChangedLines | None) -> list[str]:
    assert diff is not None
    return [line for line in diff.hunk.splitlines()[1:] if line[0] in "+-"]


def never(api: str, at: str = "optimizer.step()", text: str = TRAIN) -> Incident:
    """A call that vanished is noticed at the step of its window."""
    return incident(api, NEVER, f"train.py:{line_of(text, at)}")


def test_a_removed_call_is_found_by_its_name_in_the_function_that_misses_it() -> None:
    new = TRAIN.replace("        optimizer.zero_grad()\n", "").replace("print(loss.item())", "log(loss)")
    diff = diff_of(never("torch.optim.AdamW.zero_grad", text=new), train=(TRAIN, new))
    assert diff is not None
    assert (diff.file, diff.how) == ("train.py", "same function")
    assert diff.hunk.splitlines()[diff.focus] == "-        optimizer.zero_grad()"
    assert diff.hunk.startswith("@@ -13,12 +13,11 @@\n")


def test_a_removed_call_in_another_function_wins_over_another_change_near_the_line() -> None:
    """The helper that clipped was emptied; near the step only the logging changed."""
    old = TRAIN.replace("        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "        clip(model)\n")
    old += "\ndef clip(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    new = old.replace("    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n", "    return model\n")
    new = new.replace("print(loss.item())", "log(loss)")
    diff = diff_of(never("torch.nn.utils.clip_grad_norm_", text=new), train=(old, new))
    assert diff is not None
    assert diff.how == "same file"
    assert "-    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)" in changed(diff)


def test_a_removed_call_in_another_file_is_found_by_its_name() -> None:
    old = "def prepare(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
    diff = diff_of(never("torch.nn.utils.clip_grad_norm_"), lib__steps=(old, "def prepare(model):\n    pass\n"))
    assert diff is not None
    assert (diff.file, diff.how) == ("lib/steps.py", "another file")


@pytest.mark.parametrize("name", ["update_ema", "refresh_ema_weights", "ModelEMA", "emaStep"])
def test_an_average_that_stands_still_is_found_whatever_its_update_is_called(name: str) -> None:
    old = TRAIN.replace("        print(loss.item())\n", f"        {name}(average, model)\n        print(loss.item())\n")
    new = TRAIN.replace("print(loss.item())", "log(loss)").replace("steps", "iterations")
    item = incident(
        "torch.nn.Parameter", Deviation.LACKING, "other.py:3", "Moves", kind="parameter", moves=True, per="step"
    )
    assert f"-        {name}(average, model)" in changed(diff_of(item, train=(old, new)))


def test_a_call_that_moved_is_not_what_removed_another() -> None:
    """`zero_grad` of the discriminator only moved; that of the generator is gone."""
    old = "def a(x):\n    x.zero_grad()\n    x.use()\n    x.go()\n\ndef b(y):\n    y.zero_grad()\n    y.step()\n"
    new = "def a(x):\n    x.use()\n    x.go()\n    x.zero_grad()\n\ndef b(y):\n    y.step()\n"
    diff = diff_of(incident("torch.optim.SGD.zero_grad", NEVER, "train.py:2"), train=(old, new))
    assert diff is not None
    assert diff.hunk.splitlines()[diff.focus] == "-    y.zero_grad()"


def test_an_added_call_is_not_what_removed_one() -> None:
    """The discriminator's `zero_grad` is new in the loop; the generator's went from a helper."""
    old = TRAIN.replace("        optimizer.zero_grad()\n", "        clear(optimizer)\n")
    old += "\ndef clear(optimizer):\n    optimizer.zero_grad()\n"
    new = old.replace("    optimizer.zero_grad()\n", "    return optimizer\n")
    new = new.replace("        clear(optimizer)\n", "        clear(optimizer)\n        critic.zero_grad()\n")
    diff = diff_of(never("torch.optim.AdamW.zero_grad", text=new), train=(old, new))
    assert diff is not None
    assert diff.hunk.splitlines()[diff.focus] == "-    optimizer.zero_grad()"


def test_a_changed_line_of_a_statement_over_several_lines_contains_its_first_line() -> None:
    new = TRAIN.replace("weight_decay=0.1", "weight_decay=0.5")
    item = incident(
        "torch.optim.AdamW",
        DIFFERENT,
        f"train.py:{line_of(new, 'AdamW(')}",
        "Hyperparameter",
        optimizer="AdamW[Net]",
        name="weight_decay",
        rule="value",
        value=0.01,
    )
    diff = diff_of(item, train=(TRAIN, new))
    assert diff is not None
    assert diff.how == "contains the line"
    assert changed(diff) == ["-        weight_decay=0.1,", "+        weight_decay=0.5,"]


def test_a_default_elsewhere_is_found_by_the_name_of_the_argument() -> None:
    """The learning rate comes from the command line, and somebody touched the logging in the same function."""
    new = TRAIN.replace('"lr": 0.001', '"lr": 0.01').replace("print(loss.item())", "log(loss)")
    source = f"train.py:{line_of(new, 'AdamW(')}"
    item = incident("torch.optim.AdamW", DIFFERENT, source, "Hyperparameter", **RATE)
    diff = diff_of(item, train=(TRAIN, new))
    assert diff is not None
    assert diff.hunk.splitlines()[diff.focus] == '-    return {"lr": 0.001, "steps": 8}'


def test_a_configuration_file_is_part_of_the_diff() -> None:
    item = incident("torch.optim.AdamW", DIFFERENT, "train.py:10", "Hyperparameter", **RATE)
    (found,) = attach([item], {"conf/train.yaml": ("steps: 8\nlr: 0.001\n", "steps: 8\nlr: 0.01\n")})
    assert found.diff == ChangedLines(
        "conf/train.yaml", "@@ -1,2 +1,2 @@\n steps: 8\n-lr: 0.001\n+lr: 0.01", "another file", 2
    )


def test_an_unrelated_change_is_never_shown() -> None:
    new = TRAIN.replace('"steps": 8', '"steps": 9')
    item = incident(
        "torch.nn.functional.dropout",
        DIFFERENT,
        "train.py:17",
        "APIArg",
        api="torch.nn.functional.dropout",
        argument="p",
        value="0.1",
    )
    assert diff_of(item, train=(TRAIN, new), other=("a = 1\n", "a = 2\n")) is None
    assert diff_of(never("torch.optim.AdamW.zero_grad"), train=(TRAIN, new), other=("a = 1\n", "a = 2\n")) is None
    assert diff_of(never("torch.optim.AdamW.zero_grad")) is None


def test_the_only_change_explains_what_vanished() -> None:
    diff = diff_of(never("torch.optim.AdamW.zero_grad"), other=("a = 1\n", "a = 2\n"))
    assert diff is not None
    assert diff.how == "the only change"


def test_the_only_change_is_shown_whatever_deviates() -> None:
    """A constant at the top of a file, of which no name at the place tells."""
    item = incident(
        "torch.nn.functional.dropout", DIFFERENT, "train.py:17", "APIArg",
        api="torch.nn.functional.dropout", argument="p", value="0.1",
    )  # fmt: skip
    diff = diff_of(item, train=(TRAIN, TRAIN.replace('"steps": 8', '"steps": 9')))
    assert diff is not None
    assert diff.how == "the only change"


def test_comments_and_blank_lines_are_no_changes() -> None:
    new = TRAIN.replace(
        "        loss.backward()\n", "        # loss.backward() comes first\n\n        loss.backward()\n"
    )
    assert diff_of(never("torch.autograd.backward"), train=(TRAIN, new)) is None


def test_a_change_in_the_same_function_is_the_last_resort_before_none() -> None:
    new = TRAIN.replace("loss_of(model, batch)\n        loss.b", "loss_of(model.module, batch)\n        loss.b")
    source = f"train.py:{line_of(new, 'optimizer.step()')}"
    diff = diff_of(incident("torch.autograd.backward", DIFFERENT, source, "EventContain", **RECEIVED),
                   train=(TRAIN, new))  # fmt: skip
    assert diff is not None
    assert diff.how == "same function"
    elsewhere = f"train.py:{line_of(new, 'model.eval()')}"
    item = incident(
        "torch.nn.functional.relu", DIFFERENT, elsewhere, "APIOutput", api="torch.nn.functional.relu", dtype="float32"
    )
    assert diff_of(item, train=(TRAIN, new), other=("a = 1\n", "a = 2\n")) is None


def test_the_loop_of_a_script_without_functions_is_its_function() -> None:
    old = "import torch\nmodel = make()\nprint(1)\nfor batch in data:\n    a()\n    optimizer.step()\n"
    new = old.replace("    a()\n", "    b()\n")
    source = f"train.py:{line_of(new, 'optimizer.step()')}"
    item = incident(
        "torch.nn.functional.relu", DIFFERENT, source, "APIOutput", api="torch.nn.functional.relu", dtype="float32"
    )
    diff = diff_of(item, train=(old, new))
    assert diff is not None
    assert diff.how == "same function"
    assert diff_of(item, train=(old, old.replace("print(1)", "print(2)")), other=("a = 1\n", "a = 2\n")) is None


def test_a_vanished_call_is_looked_for_where_its_consequences_are() -> None:
    new = TRAIN.replace("model.train()", "restore(model)").replace('"steps": 8', '"steps": 9')
    item = incident("torch.nn.functional.dropout", NEVER, "other.py:3", consequences=("train.py:5",))
    diff = diff_of(item, train=(TRAIN, new))
    assert diff is not None
    assert diff.how == "same function as a consequence"
    assert "+    restore(model)" in changed(diff)


def test_a_mode_is_looked_for_as_a_method_and_not_as_a_word() -> None:
    """`train` stands for much; only `.train()` is the mode."""
    new = TRAIN.replace("    model.train()\n", "").replace('"steps"', '"train"')
    source = f"train.py:{line_of(new, 'loss = loss_of')}"
    mode: dict[str, Any] = {"api": "torch.nn.Module.forward", "mode": "training", "stage": "train", "value": "on"}
    item = incident("torch.nn.Module.train", DIFFERENT, source, "APIArg", **mode)
    assert changed(diff_of(item, train=(TRAIN, new))) == ["-    model.train()"]


def test_a_layer_is_the_function_that_it_calls() -> None:
    old = "class Net:\n    def __init__(self):\n        self.norm = nn.LayerNorm(4)\n        self.act = nn.ReLU()\n"
    new = old.replace("nn.LayerNorm(4)", "nn.Identity()")
    diff = diff_of(incident("torch.nn.functional.layer_norm", NEVER, "train.py:3"), model=(old, new),
                   other=("a = 1\n", "a = 2\n"))  # fmt: skip
    assert diff is not None
    assert diff.file == "model.py"


def test_a_long_change_is_cut_around_what_matters() -> None:
    body = [f"    x{number} = {number}\n" for number in range(200)]
    old = "def train():\n" + "".join(body) + "    optimizer.zero_grad()\n"
    new = "def train():\n" + "".join(line.replace("=", "= 1 +") for line in body)
    diff = diff_of(incident("torch.optim.SGD.zero_grad", NEVER, "train.py:3"), train=(old, new))
    assert diff is not None
    assert len(diff.hunk.splitlines()) == MAX_LINES + 1
    head, *lines = diff.hunk.splitlines()
    removed, added = (sum(line[0] != mark for line in lines) for mark in "+-")
    assert head.split()[1].endswith(f",{removed}")
    assert head.split()[2].endswith(f",{added}")


def test_a_file_that_is_no_python_and_one_that_is_gone_do_no_harm() -> None:
    item = never("torch.optim.AdamW.zero_grad")
    assert diff_of(item, train=("def broken(:\n    zero_grad()\n", "")) is not None
    assert ChangedFile("a.py", "", "x = 1\n").blocks
    assert ChangedFile("a.py", "\0", "((((").in_function(ChangedFile("a.py", "a", "b").blocks[0], 1) is False


def test_a_source_that_is_none_is_no_place() -> None:
    for source in ("", "train.py", ":", "train.py:x"):
        item = incident(
            "torch.nn.functional.relu", DIFFERENT, source, "APIOutput", api="torch.nn.functional.relu", dtype="float32"
        )
        changed = TRAIN.replace("lr=lr", "lr=2")
        assert diff_of(item, train=(TRAIN, changed), other=("a = 1\n", "a = 2\n")) is None


def test_lines_are_counted_as_python_counts_them() -> None:
    old = "# \f page\r\n\r\ndef train():\r\n    zero_grad()\r\n    step()\r\n"
    diff = diff_of(incident("torch.nn.functional.relu", DIFFERENT, "train.py:5", "APIOutput", **RELU),
                   train=(old, old.replace("step()", "go()")))  # fmt: skip
    assert diff is not None
    assert diff.how == "contains the line"
    assert diff.hunk.startswith("@@ -2,4 +2,4 @@\n \n def train():\n")


MODEL = """\
class Tagger(nn.Module):
    def forward(self, ids):
        pad = ids.eq(0)
        return self.encoder(self.embed(ids), pad)

def train(net, ids):
    return net(ids).sum()
"""


def test_a_result_is_looked_for_where_it_is_computed_before_where_it_is_asked_for() -> None:
    new = MODEL.replace("eq(0)", "ne(0)").replace("sum()", "mean()")
    asked, computed = (f"train.py:{line_of(MODEL, words)}" for words in ("net(ids)", "self.encoder"))
    at = {"subject": "Tagger", "deviation": DIFFERENT, "source": asked, "relation": "Replay", "of": "module"}

    assert changed(diff_of(incident(**at), train=(MODEL, new)))[-1] == "+    return net(ids).mean()"
    found = diff_of(incident(**at, place=computed), train=(MODEL, new))
    assert found is not None
    assert found.hunk.splitlines()[1 + found.focus].endswith("ids.ne(0)")


def test_where_nothing_changed_at_the_place_the_source_is_looked_at() -> None:
    new = MODEL.replace("sum()", "mean()")
    asked, computed = (f"train.py:{line_of(MODEL, words)}" for words in ("net(ids)", "self.encoder"))

    assert (
        diff_of(incident("Tagger", DIFFERENT, asked, "Replay", place=computed, of="module"), train=(MODEL, new))
        is not None
    )


def test_the_only_change_is_what_computes_something_else() -> None:
    new = MODEL.replace("eq(0)", "ne(0)")
    asked = f"train.py:{line_of(MODEL, 'net(ids)')}"

    found = diff_of(incident("Tagger", DIFFERENT, asked, "Replay", of="module"), train=(MODEL, new))

    assert found is not None
    assert found.how == "the only change"
    both = new.replace("sum()", "mean()") + "    # and\n"
    assert (
        diff_of(incident("Tagger", DIFFERENT, "other.py:1", "Replay", of="module"), train=(MODEL, both * 1)) is not None
    )
    argument = incident("Tagger", DIFFERENT, asked, "APIArg", **DROPOUT)
    assert diff_of(argument, train=(MODEL, new), other=("a = 1\n", "a = 2\n")) is None
