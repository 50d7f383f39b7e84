"""Changes in files that nothing shows to be read stand behind those of files that are; none is lost where it is all."""

from __future__ import annotations

import pytest

from pytest_traincheck.check.blocks import ChangedFile
from pytest_traincheck.check.ran import Ran, joined, words_of
from pytest_traincheck.check.standing import Known, Standing, sort_out

Texts = tuple[str, str]
BUMP = ('version = "1.0"\n', 'version = "1.1"\n')
CODE = ("a = 1\n", "a = 2\n")


def known(*imported: str, command: str = "train.py --steps 8", **sources: str) -> Known:
    ran = Ran({}, frozenset(), frozenset(), frozenset(imported), words_of([command]))
    return Known(ran, {f"{name}.py": text for name, text in sources.items()})


def standing(about: Known, **files: Texts) -> Standing:
    named = {name.replace("__", "/").replace("_dot_", "."): texts for name, texts in files.items()}
    return sort_out([ChangedFile(path, old, new) for path, (old, new) in sorted(named.items())], about)


def likely(about: Known, **files: Texts) -> list[str]:
    return [place.file.path for place in standing(about, **files).likely]


def test_what_was_not_imported_stands_behind_what_was() -> None:
    about = known("train.py", "lib/nets.py")
    found = standing(about, lib__nets_dot_py=CODE, tests__test_nets_dot_py=CODE, setup_dot_py=BUMP)
    assert [place.file.path for place in found.likely] == ["lib/nets.py"]
    assert [place.file.path for place in found.unlikely] == ["setup.py", "tests/test_nets.py"]
    assert found.best == found.likely


def test_where_nothing_was_imported_that_changed_the_rest_is_not_lost() -> None:
    found = standing(known("train.py"), tests__test_nets_dot_py=CODE)
    assert [place.file.path for place in found.best] == ["tests/test_nets.py"]


def test_where_nobody_knows_what_ran_every_module_may_have_run() -> None:
    assert likely(Known(), lib__nets_dot_py=CODE, tests__test_nets_dot_py=CODE, pyproject_dot_toml=BUMP) == [
        "lib/nets.py",
        "tests/test_nets.py",
    ]


def test_settings_in_python_that_the_command_names_are_read_without_an_import() -> None:
    about = known("train.py", command="train.py config/small.py")
    assert likely(about, config__small_dot_py=CODE, config__large_dot_py=CODE) == ["config/small.py"]


def test_a_module_that_is_gone_was_read_where_code_that_changed_named_it() -> None:
    train = ("from lib import clipping\nclipping.clip()\n", "pass\n")
    gone = ("def clip():\n    clip_grad_norm_()\n", "")
    assert likely(known("train.py"), train_dot_py=train, lib__clipping_dot_py=gone, tests__old_dot_py=gone) == [
        "lib/clipping.py",
        "train.py",
    ]


def test_a_file_that_is_no_code_and_changed_may_be_data() -> None:
    assert likely(known("train.py"), data__words_dot_txt=CODE, conf__base_dot_yaml=CODE) == [
        "conf/base.yaml",
        "data/words.txt",
    ]


@pytest.mark.parametrize(
    ("about", "more", "read"),
    [
        (known("train.py"), {}, False),
        (known("train.py", command="train.py --out last"), {}, True),
        (known("train.py", train="json.load(open('last.json'))"), {}, True),
        (known("train.py"), {"train_dot_py": ("read('a.json')\n", "read('last.json')\n")}, True),
        (known("train.py"), {"conf_dot_yaml": ("use: first\n", "use: last\n")}, True),
        (known("train.py"), {"train_dot_py": ("a\n", "drop_last = last = 1\n")}, False),
    ],
    ids=["nobody", "command", "code", "changed code", "settings", "another word"],
)
def test_a_new_file_is_read_where_something_names_it(about: Known, more: dict[str, Texts], read: bool) -> None:
    assert ("last.json" in likely(about, last_dot_json=("", '{"lr": 1}\n'), **more)) is read


def test_the_number_of_a_release_is_behind_nothing() -> None:
    about = known("train.py", "lib/version.py", "lib/__init__.py")
    texts = {
        "lib__version_dot_py": ("__version__ = '1.2.0'\n", "__version__ = '1.2.1'\n"),
        "lib__version_dot_txt": ("1.2.0a1\n", "1.2.0a2\n"),
    }
    assert likely(about, **texts) == []
    assert likely(about, scale_dot_txt=("1.2\n3.4\n", "1.2\n3.5\n")) == ["scale.txt"]
    assert likely(about, lib__version_dot_py=("rate = 1.0\n", "rate = 2.0\n")) == ["lib/version.py"]


def test_several_runs_know_what_each_of_them_knows() -> None:
    one = Ran({"a.py": frozenset({1})}, frozenset({"f"}), frozenset({"A"}), frozenset({"a.py"}), frozenset({"x"}))
    other = Ran({"a.py": frozenset({2})}, frozenset({"g"}), frozenset({"B"}), frozenset({"b.py"}), frozenset())
    both = joined([one, other])
    assert both is not None
    assert (both.lines, both.functions, both.classes) == ({"a.py": {1, 2}}, {"f", "g"}, {"A", "B"})
    assert joined([one, None]) is None
    assert joined([]) is None
