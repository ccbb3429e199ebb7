"""The pages of the documentation's site: ``python -m relayvm.compiler.docs.site_pages FOLDER`` copies them for MkDocs.

The folder has the README, the pages and every file that they link to, each at its path from the root, so links stay as they
are.  A link to a folder becomes its text: a site has no page for it.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from .page_links import LINK, pages

ROOT = Path(__file__).resolve().parents[2]
#: The style of the site, which no page links to.
STYLE = "docs/site.css"
#: The head of the first page: a list of itself alone would take a fifth of the width.
_ALONE = "---\nhide:\n  - navigation\n---\n"


def linked_files(root: Path) -> list[str]:
    """The pages and every file that pages link to, directly or through other pages, by paths from ``root``."""
    found: list[str] = []
    waiting = pages(root)
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found.append(path)
        if path.endswith(".md"):
            place = (root / path).parent
            targets = [target.partition("#")[0] for target in LINK.findall((root / path).read_text(encoding="utf-8"))]
            files = [(place / target).resolve() for target in targets if target and not re.match(r"[a-z]+:", target)]
            waiting += [file.relative_to(root).as_posix() for file in files if file.is_file() and file.is_relative_to(root)]
    return sorted(found)


def _without_folders(text: str, place: Path) -> str:
    def kept(link: re.Match[str]) -> str:
        return link[0] if not (place / link[1]).is_dir() else link[0].partition("](")[0].lstrip("[")

    return LINK.sub(kept, text)


def main(folder: Path) -> None:
    """Make the folder anew."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in [*linked_files(ROOT), STYLE]:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.endswith(".md"):
            text = (ROOT / path).read_text(encoding="utf-8")
            head = _ALONE if path == "README.md" else ""
            target.write_text(head + _without_folders(text, (ROOT / path).parent), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / path, target)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
