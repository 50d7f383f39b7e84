"""Repositories with scripts in them, and what is found there."""

from __future__ import annotations

import textwrap
from pathlib import Path

from pytest_traincheck.scripts.model import Script
from pytest_traincheck.scripts.proposal import propose
from pytest_traincheck.scripts.search import find

LOOP = """
def fit(net, batches, opt):
    for x, y in batches:
        opt.zero_grad()
        ((net(x) - y) ** 2).mean().backward()
        opt.step()
"""


class Repository:
    """Files in a directory, and what is found in them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str) -> Repository:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(textwrap.dedent(text))
        return self

    def found(self) -> list[Script]:
        paths = [path.relative_to(self.root).as_posix() for path in self.root.rglob("*") if path.is_file()]
        return find(self.root, paths)

    def only(self) -> Script:
        (script,) = self.found()
        return script

    def command(self) -> str:
        return propose(self.only(), "net").run

    def seed(self) -> str | None:
        return propose(self.only(), "net").seed_arg


def script(options: str, *, head: str = "import argparse\n") -> str:
    """A script with a loop of its own and these lines in front of it."""
    body = textwrap.dedent(options)
    return f"{head}{LOOP}\ndef main():\n{textwrap.indent(body, '    ')}\n\nif __name__ == '__main__':\n    main()\n"
