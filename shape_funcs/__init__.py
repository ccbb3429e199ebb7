"""Layer 0: symbolic dimensions, shape functions and their data-dependence flag per input."""

from __future__ import annotations

from types import ModuleType

from .symbolic.registry import SHAPE_FUNCS


def _register() -> ModuleType:
    from . import defs

    return defs


SHAPE_FUNCS.imports = _register
