"""Layer 1: operators: types, declarations, scalar expressions and kernels."""

from __future__ import annotations

from types import ModuleType

from .core.op import REGISTRY


def _declare() -> ModuleType:
    from . import defs

    return defs


REGISTRY.imports = _declare
