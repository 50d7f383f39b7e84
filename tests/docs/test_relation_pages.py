"""Every relation has a page, every page has a relation, and the relation that the pages tell how to write works."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from judgements import broken, rule, sentences
from pages import ROOT, blocks, broken_links
from training_story import Recorder, Training

from pytest_traincheck.check.evaluate import check_run
from pytest_traincheck.infer import learn
from pytest_traincheck.plugins import installed
from pytest_traincheck.relations import Deviation, builtin, registry
from pytest_traincheck.rules.model import Scope
from pytest_traincheck.trace import Run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = ROOT / "docs" / "relations"
INDEX = FOLDER / "README.md"
PAGES = sorted(page for page in FOLDER.glob("*.md") if page != INDEX)
RELATIONS = builtin.relations()
SAVED = "`torch.save` is called after the last step of a run."


def _page(name: str) -> Path:
    """The page of a relation: named after its module, in the kebab case of the other pages."""
    module = next(type(item).__module__ for item in RELATIONS if item.name == name)
    return FOLDER / f"{module.rpartition('.')[2].replace('_', '-')}.md"


@pytest.mark.parametrize("name", [item.name for item in RELATIONS])
def test_a_relation_has_a_page_and_a_line_in_the_index(name: str) -> None:
    page = _page(name)
    assert page.exists(), f"the relation {name} has no page docs/relations/{page.name}"
    assert page.read_text(encoding="utf-8").startswith(f"# {name}: ")
    (line,) = [line for line in INDEX.read_text(encoding="utf-8").splitlines() if line.startswith(f"| [{name}]")]
    assert f"({page.name})" in line


def test_a_page_has_a_relation() -> None:
    assert set(PAGES) == {_page(item.name) for item in RELATIONS}


@pytest.mark.parametrize("page", [INDEX, *PAGES], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken_links(page), f"{page.name} links to what does not exist"


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of the index page, installed as pip would: a module, and its entry points."""
    (code,) = blocks(INDEX, "python")
    (project,) = blocks(INDEX, "toml")
    entry_points = tomllib.loads(project.text)["project"]["entry-points"]
    site = tmp_path / "site"
    metadata = site / "saved_last-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / "saved_last.py").write_text(code.text, encoding="utf-8")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: saved-last\nVersion: 1.0\n", encoding="utf-8")
    lines = [
        line
        for group, entries in entry_points.items()
        for line in [f"[{group}]", *(f"{name} = {module}" for name, module in entries.items())]
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.syspath_prepend(site)
    importlib.invalidate_caches()
    installed.cache_clear()
    yield
    installed.cache_clear()
    sys.modules.pop("saved_last", None)


def _run(recorder: Recorder, *, saves: str, ranks: int = 1, seed: int = 0) -> Run:
    """Three steps, and `torch.save` before the last of them, at the end, or at the end on rank 0."""

    def story(t: Training) -> None:
        net = t.model()
        optimizer = t.adamw(list(net.parameters.values()))
        for step in range(3):
            t.zero_grad(optimizer)
            t.forward(net)
            t.loss()
            t.backward(net)
            if saves == "before" and step == 2:
                with t.call("torch.save", type="io"):
                    pass
            t.step(optimizer)
        if saves == "after" or (saves == "on rank 0" and t.rank == 0):
            with t.call("torch.save", type="io"):
                pass

    return recorder.tell(story, ranks=ranks, seed=seed)


@pytest.mark.usefixtures("plugin")
def test_the_relation_of_the_page_is_learned_and_checked(recorder: Recorder) -> None:
    golden = learn([_run(recorder, saves="after", seed=seed) for seed in (0, 1, 2)], pipeline="saving")
    assert rule(golden, SAVED).scope is Scope.TRANSFERABLE
    assert not check_run(golden, _run(recorder, saves="after", seed=3), same_spec=True).incidents
    outcome = check_run(golden, _run(recorder, saves="before", seed=3), same_spec=True)
    violation = broken(outcome, SAVED)
    assert violation.candidate == "not saved after the last step"
    assert violation.deviation is Deviation.MISPLACED
    assert violation.meaning.general
    assert violation.title.startswith("`torch.save` was called after the last optimizer step in the golden run")


@pytest.mark.usefixtures("plugin")
def test_the_relation_of_the_page_finds_its_precondition(recorder: Recorder) -> None:
    runs = [_run(recorder, saves="on rank 0", ranks=2, seed=seed) for seed in (0, 1, 2, 3)]
    assert sentences(learn(runs, pipeline="saving"), "SavedLast") == [
        "`torch.save` is called after the last step of a run, on rank 0."
    ]


@pytest.mark.usefixtures("plugin")
def test_the_relation_of_the_page_is_silent_where_golden_does_not_save_last(recorder: Recorder) -> None:
    runs = [_run(recorder, saves="before", seed=seed) for seed in (0, 1, 2)]
    assert not sentences(learn(runs, pipeline="saving"), "SavedLast")


def test_the_relation_of_the_page_is_that_of_the_example_package() -> None:
    """The package is installed with pip and used by the tests of `tests/extending`."""
    code, _, _ = next(iter(blocks(INDEX, "python"))).text.partition("\n\ndef pytest_traincheck_relations")
    module = (ROOT / "tests/extending/example/traincheck_checkpoints/saved_last.py").read_text(encoding="utf-8")
    assert module.endswith(code.rstrip() + "\n")


def test_without_the_plugin_its_rules_are_not_known() -> None:
    assert "SavedLast" not in registry.relations()
