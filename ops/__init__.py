"""Layer 1: operators: types, declarations, scalar expressions and kernels."""

from __future__ import annotations

from .core.op import REGISTRY


def _declare() -> object:
    from . import defs

    return defs


REGISTRY.imports = _declare
