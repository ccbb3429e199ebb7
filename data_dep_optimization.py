"""``relay.data_dep_optimization``: changes of a function and its weights together."""

from __future__ import annotations

from typing import Any

from .compiler.transform import fc_transpose as simplify_fc_transpose
from .ops.core.similar_names import did_you_mean

__all__ = ["simplify_fc_transpose"]

#: Relay's names without a counterpart, each with the reason.
ABSENT = {
    "bsr_conv2d": "a convolution has a dense weight",
    "bsr_dense": "weights are not made sparse; a program with sparse weights calls relay.nn.sparse_dense",
}


def __getattr__(name: str) -> Any:
    """Raises AttributeError with the reason, or with near names."""
    why = ABSENT.get(name)
    raise AttributeError(f"there is no relay.data_dep_optimization.{name}{': ' + why if why else did_you_mean(name, __all__)}")
