"""Moves the fragments of this folder into CHANGELOG.md, under the version that is released: `assemble.py VERSION`."""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

KINDS = ("added", "changed", "fixed", "removed")
FRAGMENT = re.compile(rf"[a-z0-9]+(-[a-z0-9]+)*\.({'|'.join(KINDS)})\.md")
UNRELEASED = "## Unreleased"
NO_FRAGMENTS = ("README.md", "assemble.py")


def fragments(folder: Path) -> dict[str, list[Path]]:
    """The files of each kind. Raises `ValueError` for a file that is none."""
    found: dict[str, list[Path]] = {kind: [] for kind in KINDS}
    for path in sorted(folder.iterdir()):
        if path.name in NO_FRAGMENTS or path.is_dir():
            continue
        if not FRAGMENT.fullmatch(path.name):
            raise ValueError(f"{path.name} is not named SUBJECT.KIND.md; kinds are {', '.join(KINDS)}")
        found[path.suffixes[0][1:]].append(path)
    return found


def assembled(changelog: str, texts: dict[str, list[str]], version: str, day: datetime.date) -> str:
    """The changelog with what was unreleased, and these texts by kind, under a heading of the version."""
    before, heading, rest = changelog.partition(f"{UNRELEASED}\n")
    if not heading:
        raise ValueError(f"the changelog has no line {UNRELEASED!r}")
    own, next_heading, older = rest.partition("\n## ")
    parts = [own.strip(), *("\n".join(f"- {text}" for text in texts[kind]) for kind in KINDS)]
    body = "\n\n".join(part for part in parts if part)
    return f"{before}{UNRELEASED}\n\n## {version} ({day.isoformat()})\n\n{body}\n{next_heading}{older}"


def as_item(path: Path) -> str:
    """A fragment as one item of a list, whose further lines are indented."""
    return "\n  ".join(path.read_text(encoding="utf-8").strip().splitlines())


def main(version: str) -> None:
    folder = Path(__file__).resolve().parent
    changelog = folder.parent / "CHANGELOG.md"
    found = fragments(folder)
    texts = {kind: [as_item(path) for path in paths] for kind, paths in found.items()}
    today = datetime.datetime.now(datetime.timezone.utc).date()
    changelog.write_text(assembled(changelog.read_text(encoding="utf-8"), texts, version, today), encoding="utf-8")
    for paths in found.values():
        for path in paths:
            path.unlink()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("say which version is released: python changes/assemble.py VERSION")
    main(sys.argv[1])
