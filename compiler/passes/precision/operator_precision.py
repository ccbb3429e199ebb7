"""The part that each operator has in a program whose tensors are stored as halves (see ``stored_dtypes``).

Kernels load a half as float32 and round once, at the store.  So an operator of a fused kernel computes in float32 whatever the
dtype of its tensors: the dtype of a tensor is only the format in which a kernel stores it.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from ....ops.core.op import Op, OpPattern, TypeRelError
from ....ops.core.tensor_types import TensorType, TupleType, Type
from ....ops.defs.convolution.expanded_conv import NAME as EXPANDED
from ....ops.defs.weight_forms.winograd_filters import NAME as OF_FILTERS

WIDE = "float32"


class Role(enum.Enum):
    """The demand of an operator on the tensors of float32 that it reads and writes.

    ``PRODUCT``: all are halves.  ``FOLLOW``: all are halves if an input is; its kernel is not fused.  ``MOVE``: its result has
    the elements of its inputs, and their dtype.  ``ELEMENTS``: part of a fused kernel, whose inputs and result may have any
    dtype.
    ``WIDE``: all are float32.
    """

    PRODUCT = "product"
    FOLLOW = "follow"
    MOVE = "move"
    ELEMENTS = "elements"
    WIDE = "wide"


CONVOLUTIONS = frozenset(f"nn.conv{n}d{more}" for n in (1, 2, 3) for more in ("", "_transpose"))
#: Convolutions whose weights have another form, or that compute two convolutions together.
FORMS_OF_CONVOLUTION = frozenset((OF_FILTERS, EXPANDED))
ATTENTION = frozenset(("nn.attention", "nn.batch_attention", "nn.grouped_attention"))
#: Operators whose products are computed from halves, and added in float32.
PRODUCTS = frozenset(("nn.dense", "nn.matmul", "nn.batch_matmul")) | ATTENTION | CONVOLUTIONS
#: Products that CPUs compute of float32: kernels of halves are slower, and only weights of other products are read as halves.
WIDE_ON_CPUS = CONVOLUTIONS | ATTENTION
#: Products whose library stores a result of float32, too.
WIDE_RESULTS = frozenset(("nn.dense", "nn.matmul", "nn.batch_matmul"))
#: Elementwise operators and reductions whose results leave the range of float16, or lose its precision: kept in float32 unless a
#: kernel that is not fused reads them.
SENSITIVE = frozenset(
    (
        *("exp", "fast_exp", "log", "log2", "log10", "power", "rsqrt", "tan", "sinh", "cosh"),
        *("sum", "mean", "prod", "variance", "unbiased_variance"),
    )
)
_FOLLOWING = frozenset(
    (
        *("nn.softmax", "nn.log_softmax", "nn.global_avg_pool2d", "nn.global_max_pool2d"),
        *(f"nn.{more}{kind}_pool{n}d" for more in ("", "adaptive_") for kind in ("avg", "max") for n in (1, 2, 3)),
    )
)
#: Operators that compute places, or boxes, from elements.
_OF_POSITIONS = frozenset(
    (
        *("image.affine_grid", "image.grid_sample", "nn.deformable_im2col", "vision.multibox_prior", "vision.rpn_boxes"),
        *("unravel_index", "weighted_take", "nn.displaced_products", "nn.avg_pool2d_portions", "nn.max_pool2d_portions"),
    )
)
_MOVING = frozenset(
    (
        *("sort", "topk", "dyn.topk", "vm.assert_shape", "vm.assert_same_size", "annotation.stop_fusion", "on_device"),
        *("scatter_nd", "scatter_elements"),
    )
)
#: Operators whose kernels of halves convert element by element, which takes longer than casts of vectors.
CONVERTING = frozenset(("stft", "nn.sparse_dense"))
#: Operators that read each element of some inputs, by number, for several elements of the result: it is widened once, before.
_READING_AGAIN = {"nn.displaced_products": (0, 1), "nn.avg_pool2d_portions": (0,)}
#: Operators that resize, by their attribute ``method``.
_RESIZING = frozenset((*(f"image.resize{n}d" for n in (1, 2, 3)), "dyn.image.resize2d"))


def interpolates(op: Op, attrs: Any) -> bool:
    """Whether an operator computes its elements of several neighbours, and does not only move elements."""
    return op.name in _RESIZING and attrs.method != "nearest_neighbor"


def read_again(op: Op, attrs: Any) -> tuple[int, ...]:
    """The inputs whose elements an operator reads again and again, so that a kernel of their own widens halves before."""
    return (0,) if interpolates(op, attrs) else _READING_AGAIN.get(op.name, ())


def role_of(op: Op, attrs: Any) -> Role:
    """The role of a call; the operator's rule of dtypes is to be asked, too."""
    if op.name in PRODUCTS:
        return Role.PRODUCT
    if op.name in _FOLLOWING:
        return Role.FOLLOW
    if op.name in _OF_POSITIONS:
        return Role.WIDE
    if op.name in _MOVING:
        combination = getattr(attrs, "mode", getattr(attrs, "reduction", "update"))
        return Role.MOVE if combination == "update" else Role.WIDE
    if op.pattern in (OpPattern.INJECTIVE, OpPattern.RESHAPE):
        return Role.MOVE
    if op.pattern in (OpPattern.ELEMWISE, OpPattern.BROADCAST, OpPattern.COMM_REDUCE):
        return Role.ELEMENTS
    return Role.WIDE


def with_dtypes(ty: Type, dtype: str) -> Any:
    """The dtypes of a type, as rules take them, with ``dtype`` in the place of float32."""
    if isinstance(ty, TupleType):
        return tuple(with_dtypes(field, dtype) for field in ty.fields)
    return (dtype if ty.dtype == WIDE else ty.dtype) if isinstance(ty, TensorType) else ""


def accepted(op: Op, dtypes: tuple[Any, ...], attrs: Any) -> Any:
    """The dtype, or dtypes, of the result; None if the operator does not accept these dtypes."""
    try:
        return op.dtype(dtypes, attrs)
    except TypeRelError:
        return None


def with_result(attrs: Any, dtype: str) -> Any:
    """The attributes of a call whose result has ``dtype``, where they state float32."""
    return dataclasses.replace(attrs, out_dtype=dtype) if getattr(attrs, "out_dtype", None) == WIDE else attrs


def free_inputs(op: Op, types: tuple[Type, ...], attrs: Any, dtype: str) -> frozenset[int]:
    """The inputs of float32 that may have ``dtype`` alone, without a change of the result's dtype."""
    plain = tuple(with_dtypes(ty, WIDE) for ty in types)
    result = accepted(op, plain, attrs)
    found = set()
    for n, ty in enumerate(types):
        changed = (*plain[:n], with_dtypes(ty, dtype), *plain[n + 1 :])
        if changed != plain and result is not None and accepted(op, changed, attrs) == result:
            found.add(n)
    return frozenset(found)
