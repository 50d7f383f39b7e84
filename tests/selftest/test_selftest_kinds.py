"""Kinds of mistakes that plug-ins give, and what of that cannot be planted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_traincheck import hookspecs, plugins
from pytest_traincheck.mutants.catalogue import KINDS
from pytest_traincheck.mutants.kind import Mistake
from pytest_traincheck.plugins import PluginError
from pytest_traincheck.selftest.kinds import files_of, known_kinds
from pytest_traincheck.workflow.selftest import chosen_kinds

Give = Callable[..., None]


@pytest.fixture
def give() -> Iterator[Give]:
    """Lets a plugin of a pytest session give mistakes."""
    manager = pytest.PytestPluginManager()
    manager.add_hookspecs(hookspecs)
    with plugins.in_session(manager):
        yield lambda *found: manager.register(SimpleNamespace(pytest_traincheck_mistakes=lambda: list(found)))


def mistake(file: Path, name: str = "saved-nothing") -> Mistake:
    file.touch()
    return Mistake(name, "saving", "Nothing is saved.", "It is lost.", "call of `torch.save`", file=file)


def test_kinds_of_plugins_come_after_ours_and_are_chosen_alike(give: Give, tmp_path: Path) -> None:
    ours, other = mistake(tmp_path / "a.py"), mistake(tmp_path / "a.py", "saved-twice")
    give(ours, other)
    assert known_kinds() == (*KINDS, ours, other)
    assert chosen_kinds(["saving"]) == (ours, other)
    assert chosen_kinds(["saved-t*", "step-never"]) == (*(kind for kind in KINDS if kind.name == "step-never"), other)
    assert files_of((*KINDS, ours, other)) == (tmp_path / "a.py",)


def test_without_plugins_there_are_ours() -> None:
    assert known_kinds() == KINDS


@pytest.mark.parametrize("name", ["step-never", "census", "Saved", "a@3", "a b", ""])
def test_a_name_that_is_taken_or_cannot_be_counted_is_refused(give: Give, tmp_path: Path, name: str) -> None:
    give(mistake(tmp_path / "a.py", name))
    with pytest.raises(PluginError, match="named"):
        known_kinds()


def test_a_kind_without_code_is_refused(give: Give) -> None:
    give(KINDS[0])
    with pytest.raises(PluginError, match="is no kind of mistake"):
        known_kinds()


def test_code_that_is_not_there_is_refused(give: Give, tmp_path: Path) -> None:
    planned = mistake(tmp_path / "a.py")
    planned.file.unlink()
    give(planned)
    with pytest.raises(PluginError, match=r"there is no .*a\.py, which is to plant 'saved-nothing'"):
        known_kinds()
