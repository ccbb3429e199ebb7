"""Completeness of the tests of shape functions."""

from __future__ import annotations

from pathlib import Path

from relayvm import shape_funcs  # noqa: F401  (registers)
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS


def test_every_shape_function_is_held_against_numpy() -> None:
    """The text of the tests contains the name of every registered shape function; a test names it only to compare with numpy."""
    source = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    here = [name for name, func in SHAPE_FUNCS.items() if ".shape_funcs." in func.body.__module__]
    assert [name for name in here if f'"{name}"' not in source] == []
