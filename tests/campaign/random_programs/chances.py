"""Operators of random programs, and the values that may flow into them."""

from __future__ import annotations

from ...ops.every_op import all_recipes
from ...ops.every_op.recipe import RECIPES, operators

assert all_recipes.RECIPES is RECIPES


def _named(names: str) -> frozenset[str]:
    return frozenset(names.split())


#: Results of these are exact where the dtype holds them, and elements may be of any size.
_ARITHMETIC = _named(
    "add subtract multiply maximum minimum negative abs sign nn.relu where clip floor ceil trunc round equal not_equal less "
    "less_equal greater greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor "
    "bitwise_not sum max min all any argmax argmin nn.bias_add copy zeros_like ones_like full_like isnan isinf isfinite cumsum "
    "nn.dense nn.matmul nn.batch_matmul einsum"
)  # fmt: skip
#: The same, for elements near 0 only.
_EXACT_NEAR_0 = _named(
    "divide trunc_divide floor_divide mod trunc_mod floor_mod left_shift right_shift cast cast_like prod cumprod sqrt "
    "scatter_elements scatter_nd one_hot dyn.one_hot arange nn.conv1d nn.conv2d nn.max_pool1d nn.max_pool2d invert_permutation "
    "sparse_to_dense dyn.sparse_to_dense unravel_index nn.global_max_pool2d"
)  # fmt: skip
#: Elements are moved, none is made.
_MOVES = _named(
    "reshape dyn.reshape reshape_like squeeze dyn.squeeze expand_dims dyn.expand_dims nn.batch_flatten shape_of ndarray_size "
    "transpose concatenate stack split strided_slice dyn.strided_slice slice_like tile dyn.tile repeat reverse broadcast_to "
    "broadcast_to_like dyn.broadcast_to zeros ones dyn.zeros dyn.ones full dyn.full meshgrid take gather gather_nd adv_index "
    "nn.pad dyn.nn.pad nn.mirror_pad nn.dilate reverse_sequence sliding_window trilu matrix_set_diag strided_set "
    "nn.depth_to_space nn.space_to_depth layout_transform sequence_mask reinterpret"
)  # fmt: skip
#: Elements are held against each other.
_ORDER = _named("argwhere unique sort argsort topk dyn.topk searchsorted vision.get_valid_counts vision.non_max_suppression")

EVERY = tuple(op.name for op in operators() if op.name in RECIPES)
ARITHMETIC, MOVES = _ARITHMETIC & set(EVERY), _MOVES & set(EVERY)
EXACT = ARITHMETIC | MOVES | ((_EXACT_NEAR_0 | _ORDER) & set(EVERY))
#: Errors of operands add up, times the operands' size for products.
CONTINUOUS = _named("add subtract negative abs maximum minimum nn.relu where clip multiply copy")
#: NaNs and infinities go through as in numpy.
SPECIAL = MOVES | _named("negative abs where equal less greater isnan isinf isfinite copy add subtract")
#: Where the search looks first, with weights.
WEIGHTS = {name: 6 if name in MOVES or name in CONTINUOUS else 4 if name in EXACT else 1 for name in EVERY}
WEIGHTS |= dict.fromkeys(
    [
        "concatenate",
        "split",
        "strided_slice",
        "shape_of",
        "reshape",
        "transpose",
        "add",
        "multiply",
        "take",
        "dyn.reshape",
        "stack",
    ],
    14,
)
#: Each dtype more is as many kernels more: the rare ones are rare.
DTYPES = {
    "float32": 40, "int64": 30, "int32": 14, "bool": 10, "uint8": 3, "float16": 4, "bfloat16": 3, "float64": 3, "int8": 2,
    "int16": 0.5, "uint16": 0.5, "uint32": 0.5, "uint64": 1,
}  # fmt: skip
#: Their sums must not leave the whole numbers that the dtype holds.
SUMS = _named("sum cumsum prod cumprod nn.dense nn.matmul nn.batch_matmul einsum nn.conv1d nn.conv2d scatter_nd")
