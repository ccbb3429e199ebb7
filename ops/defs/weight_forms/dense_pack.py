"""Dense layers whose weight is packed: ``[n / p, k, p]``, groups of ``p`` rows with the rows last."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.defs.movement.tensor_layout import parse_layouts
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, composite
from ...core.input_types import from_data, stated
from ...core.op import get
from ...core.tensor_types import TensorType
from ..movement.blocked_layouts import relaid
from ..movement.transform import ReshapeAttrs, TransposeAttrs
from ..products.nn import DenseAttrs, product_rule

#: The layout of a plain weight: rows, inner axis.
_PLAIN = "NC"


@frozen
class DensePackAttrs:
    """``weight_layout``: the layout of the weight, such as ``NC8n`` for ``[n / 8, k, 8]``, or ``NC`` for a plain weight or for
    groups of any size; ``units``: number of rows of the plain weight, None for any; ``out_dtype``: dtype of the result, "" for
    the data's."""

    weight_layout: str = _PLAIN
    units: int | None = None
    out_dtype: str = ""


def unpacked(weight: Term, layout: str) -> Term:
    """The plain weight ``[n, k]`` of one in ``layout``.  Raises ShapeError."""
    parse_layouts(layout, _PLAIN)
    if layout != _PLAIN or weight.rank == len(_PLAIN):
        return relaid(weight, layout, _PLAIN)
    if weight.rank != 3:
        message = f"with weight_layout 'NC' the weight must have 2 or 3 dimensions, not {weight.rank}"
        raise ShapeError(message, input=1)
    rows_first = call(get("transpose"), weight, attrs=TransposeAttrs((0, 2, 1)))
    plain: Term = call(get("reshape"), rows_first, attrs=ReshapeAttrs((-3, 0)))
    return plain


def _dense_pack(inputs: tuple[Term, Term], attrs: DensePackAttrs) -> Term:
    data, weight = inputs
    plain = DenseAttrs(attrs.units, attrs.out_dtype)
    product: Term = call(get("nn.dense"), data, unpacked(weight, attrs.weight_layout), attrs=plain)
    return product


def packed_weight(op: str, attrs: Any, data: TensorType) -> TensorType:
    """The type of the weight of the operator ``op`` for data ``[..., k]``: ``units`` rows in ``weight_layout``."""
    stated(op, attrs, "units")
    plain = {"N": attrs.units, "C": data.shape[-1]}
    layout, _ = parse_layouts(attrs.weight_layout, _PLAIN)
    sizes = [plain[letter] for letter, _ in layout.axes]
    for name in plain:
        for axis, size, inner in layout.parts(name):
            sizes[axis] = plain[name] // inner if size is None else size
    return TensorType.of(sizes, data.dtype)


composite(
    name="nn.contrib_dense_pack",
    doc="`nn.dense` with a packed weight `[n / p, k, p]`, whose layout is `NC{p}n`: "
    '`nn.contrib_dense_pack([[1.0, 2.0]], [[[1.0, 3.0], [2.0, 4.0]]], weight_layout="NC2n") = [[5.0, 11.0]]`.',
    inputs=("data", "weight"),
    attrs=DensePackAttrs,
    dtype=product_rule("nn.contrib_dense_pack", ("data", "weight")),
    expand=_dense_pack,
    infer_inputs=from_data(lambda attrs, data: (packed_weight("nn.contrib_dense_pack", attrs, data),), at_least=True),
)
