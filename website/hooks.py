"""What makes a site of `docs/`: pages from the code, the rest of the navigation, and links that leave the folder.

The pages are written to be read in the repository, too. Whatever the site needs beyond that happens here.
"""

from __future__ import annotations

import os
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parent))
import reference

BLOCK = re.compile(r"(^ *```.*?^ *```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((\.\.?/[^)\s]+|[\w][^):\s]*)\)")
REFERENCE = re.compile(r"(`[^`\n]*`)|\]\[")
ITEM = re.compile(r"(?<=[^\n])\n(?=(?:-|\d+\.) )")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put pages of guides, relations and decisions that the navigation does not name behind those that it names."""
    config.repo_url = os.environ.get("PYTEST_TRAINCHECK_URL") or None
    named = set(_pages(config.nav))
    for section, folder in config.extra["folders"].items():
        found = sorted(Path(config.docs_dir, folder).glob("*.md"))
        names = [path.relative_to(config.docs_dir).as_posix() for path in found]
        _section(config.nav, section).extend(name for name in names if name not in named)
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made from the code."""
    for name, text in reference.pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links that leave `docs/` to the repository, and let lists begin where GitHub lets them begin."""
    parts = BLOCK.split(markdown)
    here = posixpath.dirname(page.file.src_uri)

    def followed(match: re.Match[str]) -> str:
        text, target = match.groups()
        path = posixpath.normpath(posixpath.join(here, target.partition("#")[0]))
        if not path.startswith("../") and files.get_file_from_path(path) is not None:
            return match[0]
        if not (Path(config.docs_dir) / path).exists():
            return match[0]  # MkDocs says that it leads nowhere
        if not config.repo_url:
            return text
        inside = posixpath.normpath(posixpath.join("docs", path))
        return f"[{text}]({config.repo_url}/blob/HEAD/{inside})"

    for index in range(0, len(parts), 2):
        part = ITEM.sub(_begin_list, LINK.sub(followed, parts[index]))
        # No page has links by reference: `table[0][1]` is none.
        parts[index] = REFERENCE.sub(lambda match: match[1] or "]\\[", part)
    return "".join(parts)


def _begin_list(match: re.Match[str]) -> str:
    """A line break, or two where the line above belongs to no list."""
    above = match.string[: match.start()].rpartition("\n\n")[2]
    return "\n" if re.match(r"(-|\d+\.) ", above) or "\n- " in above else "\n\n"


def _pages(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [page for item in (nav.values() if isinstance(nav, dict) else nav) for page in _pages(item)]


def _section(nav: list[Any], title: str) -> list[Any]:
    """The items of a section, wherever it stands."""
    for item in nav:
        for name, inner in item.items() if isinstance(item, dict) else ():
            if isinstance(inner, list):
                if name == title:
                    return inner
                try:
                    return _section(inner, title)
                except LookupError:
                    continue
    raise LookupError(f"no section {title!r} in the navigation of mkdocs.yml: write one, or take it out of `folders`")
