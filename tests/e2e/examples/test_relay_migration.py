"""The examples of programs in the Python of Relay's users: each part against Python."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ...devices import DEVICES

EXAMPLE = Path(__file__).parents[3] / "examples" / "relay_migration.py"
NAMES: dict = {"__name__": "relay_migration"}
exec(compile(EXAMPLE.read_text(), str(EXAMPLE), "exec"), NAMES)


PASSES: dict = {"__name__": "relay_passes"}
exec(compile(EXAMPLE.with_name("relay_passes.py").read_text(), "relay_passes.py", "exec"), PASSES)


@pytest.mark.parametrize("part", PASSES["PARTS"], ids=lambda part: part.__name__)
def test_part_of_the_passes(part) -> None:
    assert PASSES["check"](part)


@pytest.mark.parametrize("target", [d for d in DEVICES if d != "cuda"])
@pytest.mark.parametrize("part", NAMES["PARTS"], ids=lambda part: part.__name__)
def test_part(part, target: str) -> None:
    assert NAMES["check"](part, target)


def test_relayvm_is_the_only_import() -> None:
    imports = [node for node in ast.walk(ast.parse(EXAMPLE.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert [ast.unparse(node) for node in imports] == ["import relayvm as relay"]
