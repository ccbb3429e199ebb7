"""The pages of the documentation: their code blocks, their headings and the links between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
#: A link or a picture: the group is its target.
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
#: Characters that an anchor leaves out, as GitHub and MkDocs do.
_NOT_IN_ANCHORS = re.compile(r"[^\w\- ]")


def pages(root: Path) -> list[str]:
    """The paths of all pages from the root of the repository: the README and the folder of documents."""
    return ["README.md", *sorted(path.relative_to(root).as_posix() for path in (root / "docs").glob("*.md"))]


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """The code blocks of a page: language and text."""
    yield from _FENCE.findall(text)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings."""
    titles = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title) for title in _HEADING.findall(_FENCE.sub("", text))]
    return {_NOT_IN_ANCHORS.sub("", title.lower()).strip().replace(" ", "-") for title in titles}


def dead_links(root: Path) -> list[str]:
    """The links to files and headings that do not exist.  Links to other sites are not followed."""
    found = []
    for page in pages(root):
        place = root / page
        for target in LINK.findall(_FENCE.sub("", place.read_text(encoding="utf-8"))):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (place.parent / path).resolve() if path else place
            if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8"))):
                found.append(f"{page}: {target}")
    return found
