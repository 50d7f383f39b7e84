"""What plug-ins give to be observed and looked through: taken, or refused in one sentence."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from pytest_traincheck import hookspecs, observing, plugins
from pytest_traincheck.frameworks.built_in import built_in
from pytest_traincheck.frameworks.description import CallType, Framework, Observation, Wrapper
from pytest_traincheck.frameworks.extensions import NONE, Extensions
from pytest_traincheck.launch.environment import child_environment
from pytest_traincheck.plugins import PluginError

FOCAL = Observation("paperlib.losses:focal_loss")
PAPERLIB = Framework("paperlib", wrappers=(Wrapper("Many", inner="network", short="M"),), parallel=("paperlib.Many",))


@contextmanager
def given(*observations: object, frameworks: Sequence[object] = ()) -> Iterator[None]:
    """A pytest session with one plugin that gives these."""
    manager = pytest.PytestPluginManager()
    manager.add_hookspecs(hookspecs)
    plugin: Any = ModuleType("conftest")
    plugin.pytest_traincheck_observations = lambda: list(observations)
    plugin.pytest_traincheck_frameworks = lambda: list(frameworks)
    manager.register(plugin, name="conftest.py")
    with plugins.in_session(manager):
        yield


def test_what_a_plug_in_gives_is_known_while_its_session_is_on() -> None:
    with given(FOCAL, FOCAL, frameworks=[PAPERLIB]):
        found = observing.extensions()
        assert found.observations == (FOCAL,)
        assert found.frameworks == (PAPERLIB,)
        assert observing.frameworks() == (*built_in(), PAPERLIB)
        assert "paperlib.Many".startswith(observing.parallel())
        assert observing.short_names("Many") == ("M",)
        assert observing.in_session_only() == {"paperlib.losses.focal_loss", "framework paperlib"}
    assert not observing.extensions()
    assert not observing.in_session_only()


def test_lists_and_plain_texts_do_as_well() -> None:
    loose: Any = Observation("paperlib:clip", ["bound"], "clip")  # type: ignore[arg-type]
    listed: Any = Framework("paperlib", versions=["paperlib"], wrappers=[Wrapper("Many", "network")])  # type: ignore[arg-type]
    with given(loose, frameworks=[listed]):
        found = observing.extensions()
    assert found.observations == (Observation("paperlib:clip", ("bound",), CallType.CLIP),)
    assert found.frameworks == (Framework("paperlib", ("paperlib",), (Wrapper("Many", "network"),)),)


@pytest.mark.parametrize(
    ("observations", "frameworks", "complaint"),
    [
        (["paperlib:focal"], [], "conftest.py: 'paperlib:focal' is no observation. Return instances of"),
        ([Observation("paperlib.focal")], [], "an observation cannot be of 'paperlib.focal'. Write it like"),
        ([Observation("paperlib:focal()")], [], "an observation cannot be of 'paperlib:focal()'"),
        ([Observation("paperlib:f", "gamma")], [], "the observation of `paperlib:f` is not usable. Its"),
        (
            [Observation("paperlib:f", type="loss")],
            [],
            "the observation of `paperlib:f` is not usable. Its",
        ),
        ([FOCAL, Observation(FOCAL.target, ("gamma",))], [], "`paperlib.losses:focal_loss` is to be observed in two"),
        ([], ["paperlib"], "'paperlib' is no framework. Return instances of"),
        ([], [Framework("paper lib")], "`name` of the framework 'paper lib' is not usable"),
        ([], [Framework("paperlib", wrappers=("Many",))], "`wrappers` of the framework 'paperlib' is not usable"),
        ([], [Framework("paperlib", wrappers=(Wrapper("Many", ""),))], "`wrappers` of the framework 'paperlib' is not"),
        ([], [Framework("paperlib", samplers="all")], "`samplers` of the framework 'paperlib' is not usable"),
        ([], [Framework("paperlib", observations="all")], "`observations` of the framework 'paperlib' is not usable"),
        ([], [Framework("paperlib", observations=("all",))], "`observations` of the framework 'paperlib' is not"),
        ([], [Framework("paperlib", observations=(Observation("all"),))], "an observation cannot be of 'all'. Write"),
        ([], [Framework("accelerate")], "two frameworks are named 'accelerate'. Leave out the one of your plug-in"),
        ([Observation(f"paperlib:f{n}") for n in range(6000)], [], "what plug-ins want observed takes"),
    ],
)
def test_what_cannot_be_used_is_one_clear_error(
    observations: list[object], frameworks: list[object], complaint: str
) -> None:
    with given(*observations, frameworks=frameworks), pytest.raises(PluginError) as caught:
        observing.extensions()
    assert complaint in str(caught.value)


def test_what_plug_ins_give_travels_by_a_variable_of_its_own(tmp_path: Path) -> None:
    def environment(extensions: Extensions) -> dict[str, str]:
        stale = {"TRAINCHECK_EXTENSIONS": "of the shell"}
        place: dict[str, Any] = {"run_dir": tmp_path, "run_id": "1", "path_first": ()}
        return child_environment(stale, interpreter=Path(sys.executable), extensions=extensions, **place)

    assert "TRAINCHECK_EXTENSIONS" not in environment(NONE)
    told = Extensions((FOCAL,), (PAPERLIB,))
    assert Extensions.from_text(environment(told)["TRAINCHECK_EXTENSIONS"]) == told
