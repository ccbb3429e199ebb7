"""Python blocks of pages run as they stand: those of a page one after the other, in an empty folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.mark.parametrize(
    ("page", "printed"),
    [
        (
            "coming-from-onnxruntime.md",
            [
                "(2, 3)",
                "(500, 3)",
                "main [('x', 'Tensor[(?rows, 4), float32]')] -> Tensor[(?rows, 3), float32]",
                "error: @main: %x has size 5 on axis 1, not 4",
                "help: %x is declared Tensor[(?rows, 4), float32], the value is Tensor[(2, 5), float32]",
                "12.0",
            ],
        )
    ],
)
def test_blocks_of_a_page(
    page: str, printed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    for block in blocks:
        exec(compile(block, page, "exec"), names)
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert blocks and lines == printed
