"""Writes a made-up graph of papers as `cora.content` and `cora.cites` into a folder: python graph.py FOLDER"""

import sys
from pathlib import Path

import numpy as np

NODES, WORDS, CLASSES = 1600, 40, 7


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    classes = generator.integers(0, CLASSES, NODES)
    words = generator.random((NODES, WORDS)) < 0.1
    for node, kind in enumerate(classes):
        words[node, kind * 5 : kind * 5 + 5] |= generator.random(5) < 0.6
    content = [
        "\t".join([str(node), *map(str, words[node].astype(int)), f"kind{classes[node]}"]) for node in range(NODES)
    ]
    cites = []
    for node in range(NODES):
        alike = np.flatnonzero(classes == classes[node])
        cites += [f"{node}\t{other}" for other in generator.choice(alike, 2) if other != node]
    (folder / "cora.content").write_text("\n".join(content) + "\n", encoding="utf-8")
    (folder / "cora.cites").write_text("\n".join(cites) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
