"""The generated pages of the documentation: ``python -m relayvm.compiler.docs.pages`` writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ...vm.bytecode.disassembly import isa_markdown
from ..operator_docs.operator_pages import ops_markdown
from .coming_from_relay import coming_from_relay_markdown
from .command_page import commands_markdown
from .error_pages import errors_markdown
from .format_table import number_formats_markdown
from .onnx_page import onnx_markdown
from .operator_types import operator_types
from .python_page import python_markdown
from .speed_table import readme_markdown, speed_markdown
from .torch_table import from_torch_markdown

#: The pages: place from the folder of documents, and generator.
PAGES: dict[str, Callable[[], str]] = {
    "ops.md": ops_markdown,
    "isa.md": isa_markdown,
    "commands.md": commands_markdown,
    "errors.md": errors_markdown,
    "onnx.md": onnx_markdown,
    "coming-from-relay.md": coming_from_relay_markdown,
    "python.md": python_markdown,
    "number-formats.md": number_formats_markdown,
    "speed.md": speed_markdown,
    "from-torch.md": from_torch_markdown,
    "../README.md": readme_markdown,
    "../compiler/builder/operator_types.pyi": operator_types,
}
FOLDER = Path(__file__).resolve().parents[2] / "docs"


def main() -> None:
    """Write every page that is not up to date, and report the pages written."""
    FOLDER.mkdir(exist_ok=True)
    for name, make in PAGES.items():
        page, text = (FOLDER / name).resolve(), make()
        fresh = page.exists() and page.read_text(encoding="utf-8") == text
        if not fresh:
            page.write_text(text, encoding="utf-8")
        print(f"{page.relative_to(FOLDER.parent)}: {'is fresh' if fresh else 'written'}")


if __name__ == "__main__":
    main()
