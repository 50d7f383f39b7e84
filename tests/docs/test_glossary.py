"""The glossary keeps what it says: few words, and texts without those that it lists as not used."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import README, ROOT, broken_links

GLOSSARY = ROOT / "docs" / "glossary.md"
PACKAGE = ROOT / "pytest_traincheck"
AT_MOST = 20

# Texts of these are read by other programs, or by nobody.
NOT_TEXTS = ("probe",)


def tables() -> list[list[tuple[str, ...]]]:
    """The rows of the tables of the glossary, without their heads."""
    found: list[list[tuple[str, ...]]] = []
    before = ""
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ---"):
            found.append([])
        elif line.startswith("| ") and before.startswith("|") and found:
            found[-1].append(tuple(cell.strip() for cell in line.strip("| ").split(" | ")))
        before = line
    # The head of a table stands before its rule, where the rows of the one before end.
    return [[row for row in rows if row[0] != "not used"] for rows in found]


WORDS, _, NOT_USED = tables()


def not_used(text: str) -> list[str]:
    """Words of the last table that a text has; what stands between backticks is code."""
    plain = re.sub(r"`[^`]*`", "", text)
    # "in golden runs" is what is to be said instead of "in golden".
    return [word for word, _ in NOT_USED if re.search(rf"\b{word}\b(?! runs?\b)", plain, re.IGNORECASE)]


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """The sentences among the strings of a file: no docstrings, and nothing of fewer than three words."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            inside.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            inside |= {id(child) for child in ast.walk(node) if child is not node}
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        elif isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
        else:
            continue
        if len(text.split()) > 2:
            yield node.lineno, text


def test_there_are_few_words_with_one_meaning_each() -> None:
    words = [row[0].lower() for row in WORDS]
    assert 0 < len(words) <= AT_MOST
    assert len(set(words)) == len(words)
    assert all(len(row) == 3 and all(row) for row in WORDS)
    assert all(whose in {"ours", "PyTorch", "TrainCheck"} or whose.startswith("pytest") for _, _, whose in WORDS)


def test_no_word_is_explained_and_forbidden() -> None:
    assert not {row[0] for row in WORDS} & {row[0] for row in NOT_USED}


def test_it_is_found() -> None:
    assert "(docs/glossary.md)" in README.read_text(encoding="utf-8")
    assert not broken_links(GLOSSARY)


@pytest.mark.parametrize("room", sorted(path.name for path in PACKAGE.iterdir() if path.name not in NOT_TEXTS))
def test_texts_do_not_use_them(room: str) -> None:
    path = PACKAGE / room
    files = [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))
    found = {
        f"{file.relative_to(ROOT)}:{line}": words
        for file in files
        for line, text in texts(file)
        if (words := not_used(text))
    }
    assert not found


def test_rules_of_the_committed_goldens_do_not_use_them() -> None:
    sentences = [
        line
        for file in sorted((ROOT / "golden_invariants").glob("*.jsonl"))
        for line in re.findall(r'"sentence": "([^"]*)"', file.read_text(encoding="utf-8"))
    ]
    assert len(sentences) > 500
    assert not [sentence for sentence in sentences if not_used(sentence)]


@pytest.mark.parametrize(
    "text",
    ["`X` was 1 in golden, is 2 now", "learned anew from the runs", "it is told another number", "In golden it was"],
)
def test_such_a_text_would_be_found(text: str) -> None:
    assert not_used(text)


@pytest.mark.parametrize(
    "text", ["it was 1 in the golden run", "learned again", "in golden runs it holds", "the `told` of"]
)
def test_other_texts_are_fine(text: str) -> None:
    assert not not_used(text)
