"""The version of a build is that of the tag, and building never fails for want of one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from packaging.version import Version


def _git(tree: Path, *words: str) -> None:
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(tree), *who, *words], check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A clone with one commit and no tag."""
    source = tmp_path / "tree" / "pytest_traincheck" / "__init__.py"
    source.parent.mkdir(parents=True)
    source.write_text('try:\n    import x\nexcept ImportError:\n    __version__ = "0.7.0"\n', encoding="utf-8")
    root = tmp_path / "tree"
    _git(root, "init", "-q")
    _git(root, "add", ".")
    _git(root, "commit", "-qm", "First")
    return root


@pytest.mark.parametrize(
    ("tag", "at_the_tag", "behind_it"),
    [("v1.2.0", "1.2.0", "1.2.1.dev1"), ("v2.0.0rc1", "2.0.0rc1", "2.0.0.dev1"), ("v1.9", "1.9", "1.10.dev1")],
)
def test_a_version_comes_from_the_tag(
    tree: Path, metadata: ModuleType, tag: str, at_the_tag: str, behind_it: str
) -> None:
    _git(tree, "tag", tag)
    assert metadata.version(tree) == at_the_tag
    _git(tree, "commit", "-qm", "Second", "--allow-empty")
    assert metadata.version(tree) == behind_it
    # What an index takes: nothing behind a `+`.
    assert Version(behind_it).local is None


def test_what_is_not_committed_is_not_the_release(tree: Path, metadata: ModuleType) -> None:
    _git(tree, "tag", "v1.2.0")
    (tree / "pytest_traincheck" / "__init__.py").write_text('__version__ = "9"\n', encoding="utf-8")
    assert metadata.version(tree) == "1.2.1.dev0"


def test_without_a_tag_it_is_what_the_package_says(tree: Path, metadata: ModuleType, tmp_path: Path) -> None:
    assert metadata.version(tree) == "0.7.0"
    _git(tree, "tag", "nightly")
    assert metadata.version(tree) == "0.7.0"
    (tree / ".git").rename(tmp_path / "elsewhere")
    assert metadata.version(tree) == "0.7.0"


def test_tags_of_a_repository_around_it_are_not_ours(tree: Path, metadata: ModuleType, tmp_path: Path) -> None:
    (tree / ".git").rename(tmp_path / "elsewhere")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "commit", "-qm", "Other", "--allow-empty")
    _git(tmp_path, "tag", "v5.0.0")
    assert metadata.version(tree) == "0.7.0"


def test_a_source_distribution_was_told(tree: Path, metadata: ModuleType) -> None:
    _git(tree, "tag", "v1.2.0")
    (tree / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: pytest-traincheck\nVersion: 1.1.9\n\nText\n")
    assert metadata.version(tree) == "1.1.9"


def test_this_package_says_its_version(metadata: ModuleType) -> None:
    assert Version(metadata.said_version(metadata.ROOT))


def test_links_of_the_page_are_absolute(metadata: ModuleType) -> None:
    readme = "![A picture](docs/idea.svg) and [a page](docs/limits.md#what), [torch](https://pytorch.org).\n\n"
    block = "```python\ntable[0](docs/idea.svg)\n```\n"
    assert metadata.page(readme + block, "https://e.org/a/b", "abc") == (
        "![A picture](https://e.org/a/b/raw/abc/docs/idea.svg) and "
        "[a page](https://e.org/a/b/blob/abc/docs/limits.md#what), [torch](https://pytorch.org).\n\n" + block
    )


def test_without_an_address_nothing_leads_nowhere(metadata: ModuleType) -> None:
    readme = "![A picture](docs/idea.svg)See [a page](docs/limits.md) and [torch](https://pytorch.org)."
    assert metadata.page(readme, "", "abc") == "See a page and [torch](https://pytorch.org)."
