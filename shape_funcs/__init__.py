"""Layer 0: symbolic dimensions, shape functions and their data-dependence flag per input."""

from __future__ import annotations

from .symbolic.registry import SHAPE_FUNCS


def _register() -> object:
    from . import defs

    return defs


SHAPE_FUNCS.imports = _register
