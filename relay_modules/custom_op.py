"""``relay.custom_op``: the words that operators of one's own are written with (docs/custom-operators.md).

Sizes of shape functions: ``check``, ``eq``, ``le``, ``lt``, ``not_``, ``all_``, ``any_``, ``where_``, ``min_``, ``max_``,
``product``, ``known_size``, and ``result_size``, a size that the kernel reports.  Elements of expressions: ``apply``.  Results
of kernels: ``OK``, ``BAD_VALUE``, ``INDEX_OUT_OF_RANGE``.  CUDA C for one block of threads: ``one_block``.
"""

from __future__ import annotations

from .compiler.builder.registration import one_block
from .ops.core.compute import apply
from .ops.native.status import BAD_VALUE, INDEX_OUT_OF_RANGE, OK
from .shape_funcs.symbolic.dim import const as known_size
from .shape_funcs.symbolic.dim import product, result_size
from .shape_funcs.symbolic.dim_operations import all_, any_, eq, le, lt, max_, min_, not_
from .shape_funcs.symbolic.dim_operations import where as where_
from .shape_funcs.symbolic.registry import check

__all__ = [
    "BAD_VALUE", "INDEX_OUT_OF_RANGE", "OK", "all_", "any_", "apply", "check", "eq", "known_size", "le", "lt", "max_", "min_",
    "not_", "one_block", "product", "result_size", "where_",
]  # fmt: skip
