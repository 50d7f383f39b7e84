"""An optimizer is replaced, a model renamed: what is said of the one is said of the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pytest_traincheck.golden.carry import with_former_support
from pytest_traincheck.golden.diff import Change, diff
from pytest_traincheck.golden.diff_text import WIDTH, render_diff
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.conditions import Clause
from pytest_traincheck.rules.model import Invariant, Kind, Scope


def rule(subject: str, sentence: str, when: tuple[Clause, ...] = (), **claim: Any) -> Invariant:
    return Invariant("R", subject, Foreign(claim), when, Scope.PINNED, Kind.BEHAVIOUR, sentence, 12, 3)


def of(name: str, lr: float, model: str = "Net", **more: str) -> Golden:
    """Three rules about an optimizer, one of its own for each of `more`."""
    key = f"{name}[{model}]"
    rules = (
        rule(
            f"torch.optim.{name}.step", f"`{name}.step` is called once.", api=f"torch.optim.{name}.step", times="once"
        ),
        rule("groups", f"`{key}` holds `{model}` only.", (Clause("root", (model,)),), optimizer=key, models=[model]),
        rule(f"torch.optim.{name}", f"lr is {lr} for `{key}`.", name="lr", optimizer=key, value=lr),
        *(rule(f"torch.optim.{name}", f"{own} is {said}.", name=own, value=said) for own, said in more.items()),
    )
    shapes = {model: {"weight": [4, 4]}}
    return Golden("net", "s", rules, models=shapes, optimizers={key: {"class": f"torch.optim.{name}", "parameters": 1}})


def test_what_both_optimizers_do_is_carried_over() -> None:
    old, new = of("SGD", 0.1, momentum="0.9"), of("AdamW", 0.01, betas="0.9, 0.999")
    result = diff(old, new)
    assert [change.new.subject for change in result.replaced] == ["groups", "torch.optim.AdamW.step"]
    assert result.changed == (Change(old.invariants[2], new.invariants[2]),)
    assert (result.removed, result.added) == ((old.invariants[3],), (new.invariants[3],))
    text = render_diff(result)
    assert "5 rules differ (1 changed, 1 removed, 1 added, 2 carried over)" in text
    assert "`AdamW[Net]` takes the place of `SGD[Net]`; 2 rules say of it" in text
    assert "- lr is 0.01 for `AdamW[Net]`.\n  - was: lr is 0.1 for `SGD[Net]`." in text


def test_a_model_with_another_name_is_the_same_model() -> None:
    result = diff(of("SGD", 0.1), of("SGD", 0.1, model="Network"))
    assert [change.new.sentence for change in result.replaced] == [
        "`SGD[Network]` holds `Network` only.",
        "lr is 0.1 for `SGD[Network]`.",
    ]
    assert (result.added, result.removed, result.changed) == ((), (), ())
    assert "**Carried over**: `Network` takes the place of `Net`; 2 rules say of it" in render_diff(result)


def test_another_model_is_not() -> None:
    new = replace(of("SGD", 0.1, model="Network"), models={"Network": {"weight": [5, 4]}})
    assert not diff(of("SGD", 0.1), new).replaced


def test_a_class_that_is_still_used_keeps_its_rules() -> None:
    """Of two models' optimizers one changes: what is said of the class stays with the other."""
    both = replace(of("SGD", 0.1), optimizers={key: {"class": "torch.optim.SGD"} for key in ("SGD[Net]", "SGD[Other]")})
    new = replace(
        of("AdamW", 0.1),
        invariants=(both.invariants[0], *of("AdamW", 0.1).invariants),
        optimizers={"AdamW[Net]": {"class": "torch.optim.AdamW"}, "SGD[Other]": {"class": "torch.optim.SGD"}},
    )
    result = diff(both, new)
    assert [change.new.subject for change in result.replaced] == ["groups"]
    assert [item.subject for item in result.added] == ["torch.optim.AdamW", "torch.optim.AdamW.step"]


def test_two_models_alike_are_not_told_apart() -> None:
    shapes = {"A": {"w": [1]}, "B": {"w": [1]}}
    old = Golden("p", "s", (rule("A", "A."), rule("B", "B.")), models=shapes)
    new = Golden("p", "s", (rule("C", "C."), rule("D", "D.")), models={"C": {"w": [1]}, "D": {"w": [1]}})
    assert not diff(old, new).replaced


def test_the_block_fits_a_terminal(golden: Golden) -> None:
    long = "The learning rate of `AdamW[Net]` (group 0) goes " + ", ".join(["0.0001"] * 30) + "."
    rules = tuple(replace(item, claim=Foreign({"new": 1}), sentence=long) for item in golden.invariants)
    text = render_diff(diff(golden, replace(golden, invariants=rules, commit="97bd01c4aa" * 4)))
    assert max(map(len, text.splitlines())) <= WIDTH
    # Continued lines are indented, so that Markdown takes them for the same entry of the list.
    assert "\n  0.0001," in text
    assert "- commit: 97bd01c4aa97 (was: " in text


def test_a_rule_keeps_the_support_it_was_learned_with() -> None:
    """With one layer more there are more examples of everything, which is no change of what is claimed."""
    old = of("SGD", 0.1)
    grown = replace(old, invariants=tuple(replace(item, examples=99, runs=9) for item in of("SGD", 0.2).invariants))
    kept = with_former_support(grown, old).invariants
    assert [(item.examples, item.runs) for item in kept] == [(12, 3), (12, 3), (99, 9)]
