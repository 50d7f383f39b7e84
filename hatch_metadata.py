"""What a package says about itself that depends on where it is built: its version, its page at the registry, and links.

The version is that of the git tag. The page is README.md with links and pictures that lead back to the repository:
relative ones lead nowhere at a registry. `PYTEST_TRAINCHECK_URL` names it (`https://github.com/OWNER/NAME`). A source
distribution has been told all of that, and a wheel made of it repeats it.
"""

from __future__ import annotations

import os
import re
import subprocess
from email import message_from_string
from email.message import Message
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # imported by a test, or by hand
    MetadataHookInterface = object  # type: ignore[assignment, misc]

ROOT = Path(__file__).resolve().parent
PAPER = "https://www.usenix.org/conference/osdi25/presentation/jiang"
TAG = re.compile(r"v(?P<release>\d+(?:\.\d+)*)(?P<before>(?:a|b|rc)\d+)?-(?P<commits>\d+)-g[0-9a-f]+(?P<dirty>-dirty)?")
# Text that is shown for a link or a picture may hold a picture; what is followed has no scheme and no anchor alone.
BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<path>(?!\w+:|#)[^)\s]+)\)")


def package_info(root: Path) -> Message | None:
    """What a source distribution that was unpacked at `root` was told; nothing in a clone."""
    path = root / "PKG-INFO"
    return message_from_string(path.read_text(encoding="utf-8")) if path.is_file() else None


def version(root: Path = ROOT) -> str:
    """The version of what lies at `root`.

    Of a commit with the tag `v1.2.3` it is 1.2.3. Five commits behind it, it is 1.2.4.dev5, and with changes that are
    not committed 1.2.4.dev0: both come before the next release. Where no tag can be read (an archive without history,
    a shallow clone, no git, a clone that belongs to somebody else), it is what the package itself says.
    """
    info = package_info(root)
    if info is not None:
        return str(info["Version"])
    described = TAG.fullmatch(_git(root, "describe", "--tags", "--long", "--dirty", "--match", "v[0-9]*"))
    # The tags of a repository that this one was unpacked into are not ours.
    if described is None or Path(_git(root, "rev-parse", "--show-toplevel")) != root.resolve():
        return said_version(root)
    release, before = described["release"], described["before"] or ""
    if described["commits"] == "0" and not described["dirty"]:
        return release + before
    *front, last = release.split(".")
    # Behind 1.2.0rc1 comes 1.2.0, and behind 1.2.0 comes 1.2.1.
    following = release if before else ".".join([*front, str(int(last) + 1)])
    return f"{following}.dev{described['commits']}"


def said_version(root: Path) -> str:
    """The version that stands in the package's own source."""
    text = (root / "pytest_traincheck" / "__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^ *__version__ = "([^"]+)"', text, re.MULTILINE)
    if match is None:
        raise ValueError(f"no `__version__ = ...` in {root}/pytest_traincheck/__init__.py: write one")
    return match[1]


def page(readme: str, repository: str, ref: str) -> str:
    """README.md for a registry: links lead to `ref` of the repository. Without one there are no links, no pictures."""

    def absolute(match: re.Match[str]) -> str:
        picture, text, path = match["picture"], match["text"], match["path"]
        if not repository:
            return "" if picture else text
        # GitHub serves a picture itself at `raw`, and a page about it at `blob`.
        return f"{picture}[{text}]({repository}/{'raw' if picture else 'blob'}/{ref}/{path})"

    parts = BLOCK.split(readme)
    parts[::2] = [LINK.sub(absolute, part) for part in parts[::2]]
    return "".join(parts)


def addresses(repository: str, ref: str) -> dict[str, str]:
    """The links that a registry shows beside the page."""
    found = {"Paper (TrainCheck, OSDI 2025)": PAPER}
    if repository:
        found["Source"] = repository
        found["Documentation"] = f"{repository}/blob/{ref}/docs/index.md"
        found["Changelog"] = f"{repository}/blob/{ref}/CHANGELOG.md"
        found["Issues"] = f"{repository}/issues"
    return found


def _git(root: Path, *words: str) -> str:
    """What git prints; nothing where there is no git, no repository, or none that it trusts."""
    # In a hook of git these name another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, timeout=60, check=True, env=environment
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


class PageHook(MetadataHookInterface):  # type: ignore[misc]
    """Gives hatchling the page and the links."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in what `pyproject.toml` calls dynamic, beside the version."""
        root = Path(self.root)
        info = package_info(root)
        if info is not None:
            text = str(info.get_payload())
            links = dict(line.split(", ", 1) for line in info.get_all("Project-URL", []))
        else:
            repository = os.environ.get("PYTEST_TRAINCHECK_URL", "").rstrip("/")
            ref = _git(root, "rev-parse", "HEAD") or "HEAD"
            text = page((root / "README.md").read_text(encoding="utf-8"), repository, ref)
            links = addresses(repository, ref)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = links
