"""What plug-ins have observed is part of a golden: where a run lacks it, rules say nothing, and that is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_traincheck import hookspecs, plugins
from pytest_traincheck.check.observed import Unlike, unlike, warnings_of
from pytest_traincheck.frameworks.description import Framework
from pytest_traincheck.frameworks.extensions import Extensions
from pytest_traincheck.golden.model import Golden
from pytest_traincheck.rules.claims import Foreign
from pytest_traincheck.rules.conditions import Clause
from pytest_traincheck.rules.model import Invariant, Kind, Scope

FOCAL = "paperlib.losses.focal_loss"
PAPERLIB = "framework paperlib"
KNOWN = Framework("paperlib", parallel=("paperlib.Many",))
SAME = Extensions((), (KNOWN,)).digests[PAPERLIB]


@pytest.fixture
def knowing() -> Iterator[None]:
    """The check has the plug-in, too."""
    manager = pytest.PytestPluginManager()
    manager.add_hookspecs(hookspecs)
    plugin: Any = ModuleType("conftest")
    plugin.pytest_traincheck_frameworks = lambda: [KNOWN]
    manager.register(plugin)
    with plugins.in_session(manager):
        yield


def rule(subject: str, claim: Mapping[str, Any], *when: Clause) -> Invariant:
    return Invariant("Any", subject, Foreign(claim), when, Scope.PINNED, Kind.BEHAVIOUR, "Something holds.")


OF_FOCAL = rule(FOCAL, {"argument": "gamma"})
WITHIN = rule("torch.optim.SGD.step", {"after": ["torch.x", f"{FOCAL}|Net"]})
WHERE = rule("torch.optim.SGD.step", {}, Clause("inside", (FOCAL,)))
OTHERS = (
    rule("torch.optim.SGD.step", {"per": "step"}),
    rule("paperlib.losses.focal_loss_with_logits", {}),
    rule("my.paperlib.losses.focal_loss", {}),
)


def golden(**extensions: str) -> Golden:
    return Golden("net", "s", (OF_FOCAL, WITHIN, WHERE, *OTHERS), extensions=keys(extensions))


def run(used: tuple[str, ...] = (), **extensions: str) -> Any:
    told = keys(extensions)
    return SimpleNamespace(extensions=told, extensions_in_use={key: told[key] for key in used})


def keys(extensions: Mapping[str, str]) -> dict[str, str]:
    return {{"focal": FOCAL, "paperlib": PAPERLIB}[name]: digest for name, digest in extensions.items()}


def silent(found: Unlike, known: Golden) -> list[Invariant]:
    return [item for item in known.invariants if found.why_not(item)]


@pytest.mark.parametrize(
    ("known", "seen"),
    [
        (golden(), run()),
        (golden(focal="a", paperlib=SAME), run(focal="a", paperlib=SAME)),
        # A plug-in that there was no occasion for, and an observation that golden does not know.
        (golden(), run(focal="a", paperlib=SAME)),
        (golden(), run((FOCAL,), focal="a")),
    ],
)
@pytest.mark.usefixtures("knowing")
def test_runs_that_were_observed_alike_are_compared(known: Golden, seen: Any) -> None:
    found = unlike(known, seen)
    assert silent(found, known) == []
    assert warnings_of(found, known) == ()


@pytest.mark.parametrize("seen", [run(), run(focal="another")], ids=["not observed", "observed otherwise"])
def test_rules_that_speak_of_a_function_say_nothing_where_it_is_not_observed_alike(seen: Any) -> None:
    known = golden(focal="a")
    found = unlike(known, seen)
    assert silent(found, known) == [OF_FOCAL, WITHIN, WHERE]
    reason = found.why_not(OF_FOCAL)
    assert "was observed for a plug-in in the golden runs, and not in this one, or in another way" in reason
    (warning,) = warnings_of(found, known)
    assert warning.kind == "golden"
    said = f"3 rules of the golden could not be checked, since a plug-in had `{FOCAL}` observed on one side only"
    assert warning.title.startswith(said)
    assert "Install the plug-in" in warning.title


@pytest.mark.parametrize(
    ("known", "seen"),
    [
        (golden(paperlib=SAME), run()),
        (golden(paperlib=SAME), run((PAPERLIB,), paperlib="another")),
        (golden(), run((PAPERLIB,), paperlib=SAME)),
    ],
    ids=["lost", "changed", "new"],
)
@pytest.mark.usefixtures("knowing")
def test_no_rule_is_checked_where_other_modules_are_looked_through(known: Golden, seen: Any) -> None:
    found = unlike(known, seen)
    assert silent(found, known) == list(known.invariants)
    (warning,) = warnings_of(found, known)
    assert warning.title.startswith("6 rules of the golden could not be checked, since a plug-in had the framework")


def test_a_check_without_the_framework_does_not_know_what_the_wrappers_in_two_traces_are() -> None:
    known = golden(paperlib=SAME)
    assert silent(unlike(known, run(paperlib=SAME)), known) == list(known.invariants)
