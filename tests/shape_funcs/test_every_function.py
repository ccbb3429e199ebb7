"""No shape function is left out."""

from __future__ import annotations

from pathlib import Path

from relayvm import shape_funcs  # noqa: F401  (registers)
from relayvm.shape_funcs.registry import SHAPE_FUNCS


def test_every_shape_function_is_held_against_numpy() -> None:
    """Every name that this layer registers is in the text of a test here, which names one only to hold it against numpy."""
    source = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    here = [name for name, func in SHAPE_FUNCS.items() if ".shape_funcs." in func.body.__module__]
    assert [name for name in here if f'"{name}"' not in source] == []
