"""A source distribution and a wheel of this tree, made once."""

from __future__ import annotations

import importlib.util
import tarfile
from types import ModuleType
from typing import Any

import pytest
from building import REPOSITORY, ROOT, Made, hatchling


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """As a release makes them: the wheel out of the source distribution."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "source").mkdir()
    (folder / "wheel").mkdir()
    sdist = hatchling(ROOT, "sdist", folder / "source", PYTEST_TRAINCHECK_URL=REPOSITORY)
    with tarfile.open(sdist) as archive:
        # Pythons of 3.10 and 3.11 got filters late, in 3.10.12 and 3.11.4.
        safely: Any = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(folder / "unpacked", **safely)
    (tree,) = (folder / "unpacked").iterdir()
    return Made(sdist, hatchling(tree, "wheel", folder / "wheel"), tree)


@pytest.fixture(scope="session")
def metadata() -> ModuleType:
    """`hatch_metadata.py`, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("hatch_metadata", ROOT / "hatch_metadata.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
