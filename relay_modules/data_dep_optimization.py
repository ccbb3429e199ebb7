"""``relay.data_dep_optimization``: changes of a function and its weights together."""

from __future__ import annotations

from typing import Any

from .compiler.transform import fc_transpose as simplify_fc_transpose
from .compiler.transform.sparse import bsr_conv2d, bsr_dense
from .ops.core.similar_names import did_you_mean

__all__ = ["bsr_conv2d", "bsr_dense", "simplify_fc_transpose"]


def __getattr__(name: str) -> Any:
    """Raises AttributeError with near names."""
    raise AttributeError(f"there is no relay.data_dep_optimization.{name}{did_you_mean(name, __all__)}")
