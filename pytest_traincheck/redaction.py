"""Passwords and tokens in commands, environments and output, before these are stored or shown.

Told by the name that they are given under (`--hf-token`, `WANDB_API_KEY=`), and by the shape that services give them.
Whatever else is a secret is not known to be one; docs/limits.md says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

HIDDEN = "***"

_NAME = (
    r"[A-Za-z0-9_.-]*?(?:token|passw(?:or)?d|passphrase|secret|credentials?"
    r"|(?:api|access|secret|private|auth)[_-]?key)"
)
_WORD_OF_LANGUAGE = re.compile(
    r"(?:^|[-_.])(?:pad|eos|bos|unk|sep|cls|mask|special|start|end|stop|image|per|next|last|first|max|min|num)[-_]?token$",
    re.IGNORECASE,
)
"""Names of language models' own tokens, as in `--pad-token`: no secrets."""

_VALUE = r"\"[^\"\n]*\"|'[^'\n]*'|[^\s\"';|&]+"
_OPTION = re.compile(rf"(?<![\w.-])(--?{_NAME})(\s+|=)(?!-)({_VALUE})", re.IGNORECASE)
_ASSIGNMENT = re.compile(rf"(?<![\w.-])({_NAME})(\s*[=:]\s*)({_VALUE})", re.IGNORECASE)
_SHAPES = re.compile(
    "|".join(
        (
            r"\bhf_[A-Za-z0-9]{16,}",
            r"\bgh[opsur]_[A-Za-z0-9]{16,}",
            r"\bgithub_pat_[A-Za-z0-9_]{16,}",
            r"\bglpat-[A-Za-z0-9_-]{16,}",
            r"\bsk-[A-Za-z0-9_-]{16,}",
            r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
            r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
            r"\bAIza[A-Za-z0-9_-]{30,}",
            r"\bpypi-[A-Za-z0-9_-]{16,}",
            r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
        )
    )
)
_USER_OF_URL = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s/:@]*):[^\s/@]+@", re.IGNORECASE)
_BEARER = re.compile(r"(\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_WHOLE_NAME = re.compile(_NAME, re.IGNORECASE)


def redacted(text: str) -> str:
    """`text` with `***` in place of every value that is a secret by its name or by its shape."""
    text = _OPTION.sub(_hide, text)
    text = _ASSIGNMENT.sub(_hide, text)
    text = _SHAPES.sub(HIDDEN, text)
    text = _USER_OF_URL.sub(rf"\1:{HIDDEN}@", text)
    return _BEARER.sub(rf"\1{HIDDEN}", text)


def redacted_words(words: Sequence[str]) -> list[str]:
    """The same for words that stand one by one, where the value of an option is the next word."""
    hidden = [redacted(word) for word in words]
    for number, word in enumerate(words[:-1]):
        if word.startswith("-") and _is_secret_name(word.lstrip("-")) and not words[number + 1].startswith("-"):
            hidden[number + 1] = HIDDEN
    return hidden


def redacted_environment(values: Mapping[str, str]) -> dict[str, str]:
    """Variables with `***` for those whose name or value is a secret's."""
    return {name: HIDDEN if _is_secret_name(name) else redacted(value) for name, value in values.items()}


def _is_secret_name(name: str) -> bool:
    return bool(_WHOLE_NAME.fullmatch(name)) and not _WORD_OF_LANGUAGE.search(name)


def _hide(found: re.Match[str]) -> str:
    name, between, value = found.groups()
    # A number under such a name is a count of tokens, or the key of an entry.
    counts = value.strip(",.;:()").replace(".", "", 1).isdigit() and not name.lower().endswith(("word", "wd", "phrase"))
    return f"{name}{between}{HIDDEN}" if _is_secret_name(name.lstrip("-")) and not counts else found.group()
