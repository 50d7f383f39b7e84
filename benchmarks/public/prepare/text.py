"""Writes a made-up text to each file that is named: sentences of a hundred words, which follow one another by rule.

python text.py [--lines N] FILE...
"""

import argparse
from pathlib import Path

import numpy as np

SYLLABLES = ("ba", "de", "ki", "lo", "mu", "na", "po", "ru", "si", "to")
WORDS = [first + second for first in SYLLABLES for second in SYLLABLES]


def text(lines: int) -> str:
    """Each word is one of three that may follow the word before it."""
    generator = np.random.default_rng(0)
    word, written = 0, []
    for _ in range(lines):
        sentence = []
        for _ in range(int(generator.integers(6, 14))):
            word = (word * 7 + int(generator.integers(1, 4))) % len(WORDS)
            sentence.append(WORDS[word])
        written.append(" ".join(sentence).capitalize() + " .")
    return "\n".join(written) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--lines", type=int, default=200)
    arguments = parser.parse_args()
    for file in arguments.files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text(arguments.lines), encoding="utf-8")


if __name__ == "__main__":
    main()
