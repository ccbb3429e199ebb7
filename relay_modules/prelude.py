"""``relay.prelude``: the standard library in a module."""

from __future__ import annotations

from .compiler.builder.prelude import Prelude
from .compiler.builder.tensor_array_ops import StaticTensorArrayOps, TensorArrayOps

__all__ = ["Prelude", "StaticTensorArrayOps", "TensorArrayOps"]
