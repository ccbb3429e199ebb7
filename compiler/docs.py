"""The generated pages of the documentation: ``python -m relayvm.compiler.docs`` writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..vm.disassembly import isa_markdown
from .commands.page import commands_markdown
from .error_pages import errors_markdown
from .operator_pages import ops_markdown

#: Each page's name and what makes it.
PAGES: dict[str, Callable[[], str]] = {
    "ops.md": ops_markdown,
    "isa.md": isa_markdown,
    "commands.md": commands_markdown,
    "errors.md": errors_markdown,
}
FOLDER = Path(__file__).resolve().parents[1] / "docs"


def main() -> None:
    """Write every page that is not fresh, and say which."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        page, text = FOLDER / name, make()
        fresh = page.exists() and page.read_text(encoding="utf-8") == text
        if not fresh:
            page.write_text(text, encoding="utf-8")
        print(f"{page.relative_to(FOLDER.parent)}: {'is fresh' if fresh else 'written'}")


if __name__ == "__main__":
    main()
