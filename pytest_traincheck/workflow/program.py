"""Whether a command trains what a golden was learned from, for as long, for longer, or something else."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from pytest_traincheck.config import PipelineSpec
from pytest_traincheck.launch.command import TMP
from pytest_traincheck.redaction import redacted_words
from pytest_traincheck.scripts.roles import is_output, words_of

_LENGTH = re.compile(
    r"(^|[-_.])(num|max|n|total|train)?[-_]?(steps?|iters?|iterations?|epochs?|updates?|samples)$", re.I
)
"""Names of options that say how long a training is."""
_SEED = re.compile(r"(^|[-_.])seed$", re.I)
_FILES = re.compile(
    r"(^|[-_.])(save|resume|restore|load|ckpt|checkpoint|continue|snapshot)([-_]?(from|to|path|file|dir|every|steps?|"
    r"interval|checkpoint|ckpt|id))*$",
    re.I,
)
"""Names of options that say where, and how often, a training is saved, or what it goes on with."""
_SAVED = re.compile(r".+\.(pt|pth|ckpt|pkl|pickle|tar|npz|safetensors|msgpack)", re.I)
"""Names of files that a training saves itself in."""
_GIVEN = re.compile(r"pretrain|init|weight|teacher|backbone|embed|vocab|token|data|train|val|test|conf", re.I)
"""In the names of options: what such a file may be that another training, or nobody, has made."""
_PYTHON = re.compile(r"(.*/)?python(\d(\.\d+)?)?")
_OF_PYTHON = re.compile(r"(-[uBqv]+|-[WX].+)|-[WX]")
"""Options of Python itself that are no part of what is trained; the second sort takes the next word."""
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?", re.I)


@dataclass(frozen=True)
class Sameness:
    """What of golden's rules applies: all of them (`same_spec`), all but those about the length of the run
    (`other_length`), or the transferable ones.
    """

    same_spec: bool
    other_length: bool
    seed: int | None = None
    """The seed that the command trains with, as far as it says so."""
    differs: str = ""
    """In which words the command is another one, where it is."""


def sameness(words: Sequence[str], spec: PipelineSpec | None, *, continued: bool = False) -> Sameness:
    """Compares a command with that of a pipeline. Of a golden file alone nobody knows the command: then whoever names
    it says that it is the same program, and nothing is said of the length.

    Args:
        continued: somebody says that it goes on with an earlier training, so that what is there already and is handed
            to it is that.
    """
    own, seed = _without_seed(words, spec)
    if spec is None:
        return Sameness(True, True, seed)
    wanted, _ = _without_seed(shlex.split(spec.run), spec)
    # A password does not change what is trained, and is not shown where something else does.
    own, wanted = (_as_python(redacted_words(each)) for each in (own, wanted))
    if own == wanted:
        return Sameness(True, False, seed)
    written = {name for name, value, _, _ in _options(wanted) if TMP in value}
    known = {name for name, _, _, _ in _options(wanted)}
    written |= {
        name
        for name, value, _, _ in _options(own)
        if name not in known
        and ((_SAVED.fullmatch(value) and not _GIVEN.search(name)) or (continued and value and Path(value).exists()))
    }
    mine, golden = (_without_length(_without_files(each, written)) for each in (own, wanted))
    alike = len(mine) == len(golden) and all(map(_is_alike, mine, golden))
    return Sameness(alike, alike, seed, "" if alike else _difference(mine, golden))


def _as_python(words: Sequence[str]) -> list[str]:
    """The words with one name for every Python, and without what changes how it prints and warns."""
    left = list(words)
    for place, word in enumerate(left):
        if _PYTHON.fullmatch(word):
            left[place] = "python"
            while place + 1 < len(left) and (match := _OF_PYTHON.fullmatch(left[place + 1])):
                del left[place + 1 : place + (2 if match.group(1) else 3)]
            break
    return left


def _is_alike(word: str, golden: str) -> bool:
    """Whether a word is golden's, or in the place of a directory that golden's runs write to and that each has anew."""
    return word == golden or TMP in golden


def _difference(words: Sequence[str], golden: Sequence[str]) -> str:
    """What a command has that golden's has not, and the other way round, as prose."""
    found: list[tuple[str, str]] = []
    for tag, begin, end, first, last in SequenceMatcher(None, golden, words, autojunk=False).get_opcodes():
        if tag != "equal":
            found.append((shlex.join(words[first:last]), shlex.join(golden[begin:end])))
    parts = [
        f"`{own}` instead of `{other}`" if own and other else f"`{own}` added" if own else f"`{other}` left out"
        for own, other in found
    ]
    return ", ".join(parts)


def _without_seed(words: Sequence[str], spec: PipelineSpec | None) -> tuple[list[str], int | None]:
    """The words without those that give the seed, and the seed."""
    left = list(words)
    if spec is not None and spec.seed_arg is not None:
        pattern = [re.escape(word).replace(re.escape("{seed}"), r"(\d+)") for word in shlex.split(spec.seed_arg)]
        for place in range(len(left) - len(pattern) + 1):
            found = [re.fullmatch(part, word) for part, word in zip(pattern, left[place:], strict=False)]
            if all(found):
                seeds = [int(match.group(1)) for match in found if match is not None and match.groups()]
                return left[:place] + left[place + len(pattern) :], seeds[0] if seeds else None
        return left, None
    for name, value, begin, end in _options(left):
        if _SEED.search(name) and value.isdecimal():
            return left[:begin] + left[end:], int(value)
    return left, None


def _without_files(words: Sequence[str], written: Collection[str]) -> list[str]:
    """The words without those that say where it writes, what is saved and gone on with: it is the same training.
    `written`: further options of that sort, such as have a directory of their own in each of golden's runs.
    """
    left = list(words)
    for name, value, begin, end in reversed(list(_options(words))):
        # A number is no place: `--out 64` is how large something is. Nor is a flag.
        is_place = value and is_output(words_of(name)) and not _NUMBER.fullmatch(value)
        if name in written or _FILES.search(name) or is_place:
            del left[begin:end]
    return left


def _without_length(words: Sequence[str]) -> list[str]:
    """The words without the numbers that say for how long to train."""
    left = list(words)
    for name, value, _, end in reversed(list(_options(words))):
        if _LENGTH.search(name) and _NUMBER.fullmatch(value):
            left[end - 1] = name
    return left


def _options(words: Sequence[str]) -> list[tuple[str, str, int, int]]:
    """Options: name without dashes, value, and where in the words it begins and ends. A flag has an empty value."""
    found: list[tuple[str, str, int, int]] = []
    for place, word in enumerate(words):
        name, equals, value = word.lstrip("-+").partition("=")
        if equals and name:
            found.append((name, value, place, place + 1))
        elif word.startswith("-") and name:
            following = words[place + 1] if place + 1 < len(words) else "-"
            takes = not following.startswith("-") or _NUMBER.fullmatch(following) is not None
            found.append((name, following if takes else "", place, place + 1 + takes))
    return found
