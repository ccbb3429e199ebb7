"""The parts of attention by heads as programs write it: operands with their factors and repetitions, scores with biases.

operand:  reshape(multiply(transpose(%x, axes=[0, 2, 1, 3]), 0.35f), newshape=[-3, -2])
shared:   reshape(dyn.broadcast_to(expand_dims(%x, axis=2), %shape), newshape=[0, -3, 0, 0]), or repeat(%x, repeats=4, axis=1)
scores:   add(multiply(tanh(multiply(%product, 0.02f)), 50f), %mask), or where(%mask, multiply(%product, 0.125f), -inff)
weights:  nn.softmax(%scores), or where(isnan(%softmax), 0f, %softmax)
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...declarations.frozen_dataclass import frozen
from ...ops.core.op import Op, OpPattern, get
from ...ops.core.tensor_types import HALVES, TensorType
from ...shape_funcs.symbolic.dim import Dim, const, product
from ..ir.expr import Call, Constant, Expr

#: The dtypes of attention, one for all tensors.
DTYPES = ("float32", "float64", *HALVES)
#: Axes of heads between batch and positions, and of keys whose last axis is that of positions.
BY_HEADS, _TRANSPOSED = [0, 2, 1, 3], [0, 2, 3, 1]
_BROADCASTS = ("broadcast_to", "dyn.broadcast_to", "broadcast_to_like")
_IN_SCORES = ("nn.batch_matmul", "multiply", "divide", "add", "where", "tanh", "reshape")
#: A number, in the place of scores, that a sum with scores is, too.
_ABSORBING = -1e30
Shape = tuple[Dim, ...]
#: The call that defines an atom, and the same if the atom has no other use; None for any other atom.
Definition = Callable[[Expr], "Call | None"]


@frozen
class Operand:
    """Queries, keys or values: ``factor`` times ``data``, ``[batch, heads, positions, size]``; with ``by_positions`` the two
    axes between are exchanged."""

    data: Expr
    factor: float
    by_positions: bool

    @property
    def sizes(self) -> Shape:
        """Batch, positions, heads, elements of a head."""
        batch, first, second, size = shape_of(self.data)
        return (batch, first, second, size) if self.by_positions else (batch, second, first, size)


@frozen
class Bias:
    """A tensor that is added to the scores of ``shape``; with ``instead``, the condition under which scores stay, or do not.

    ``instead``: the constant in the place of the other scores.  ``keeps``: whether scores stay where the condition holds.
    """

    data: Expr
    shape: Shape
    instead: Constant | None = None
    keeps: bool = True


@frozen
class Scores:
    """The scores ``cap * tanh(scale * product / cap)`` plus ``biases``; without ``cap``, 0, ``scale * product``.

    ``values``: the values between the product and the softmax.
    """

    product: Call
    scale: float
    cap: float
    biases: tuple[Bias, ...]
    values: tuple[Expr, ...]


def type_of(x: Expr) -> TensorType:
    """The type of a tensor."""
    assert isinstance(x.ty, TensorType), x
    return x.ty


def shape_of(x: Expr) -> Shape:
    """The sizes of a tensor."""
    return type_of(x).shape


def _is_of(call: Call, names: Collection[str]) -> bool:
    """Whether a call is of an operator of these names."""
    return isinstance(call.op, Op) and call.op.name in names


def turns(call: Call, axes: list[int]) -> bool:
    """Whether a call is a transpose with these axes."""
    rank = len(axes)
    return call.op is get("transpose") and call.attrs.axes is not None and [a % rank for a in call.attrs.axes] == axes


def batched_product(call: Call | None) -> Call | None:
    """The call if it is a batched product of matrices of one dtype of which the first is not transposed."""
    if call is None or call.op is not get("nn.batch_matmul") or call.attrs.transpose_a:
        return None
    dtypes = {type_of(x).dtype for x in (call, *call.args)}
    return call if len(dtypes) == 1 and dtypes <= set(DTYPES) else None


def without_views(atom: Expr, definition: Definition) -> Expr:
    """The tensor of which ``atom`` is a reshape, or ``atom``."""
    call = definition(atom)
    while call is not None and call.op is get("reshape"):
        atom = call.args[0]
        call = definition(atom)
    return atom


def scaled(call: Call) -> tuple[float, Expr] | None:
    """The factor and the tensor of a multiplication by a number, or a division by a number."""
    if call.op is get("divide"):
        number = _number(call.args[1])
        return None if not number or shape_of(call.args[0]) != shape_of(call) else (1 / number, call.args[0])
    if call.op is get("multiply"):
        for factor, other in (call.args, call.args[::-1]):
            number = _number(factor)
            if number is not None and shape_of(other) == shape_of(call):
                return number, other
    return None


def _number(atom: Expr) -> float | None:
    return float(atom.data.reshape(())) if isinstance(atom, Constant) and atom.data.size == 1 else None


# ---- operands ----------------------------------------------------------------------------------------------------------------


def operand(matrices: Expr, is_transposed: bool, definition: Definition) -> Operand | None:
    """The operand whose matrices, ``[batch * heads, positions, size]``, are the batches of a product.

    ``is_transposed``: they are ``[batch * heads, size, positions]``.  Heads that repeat others are left out.
    """
    atom, factor, sizes = matrices, 1.0, shape_of(matrices)
    while (call := definition(atom)) is not None:
        found, data = scaled(call), call.args[0]
        if found is not None:
            factor, atom = factor * found[0], found[1]
        elif _is_view(call) and _matrices(shape_of(data)) == sizes:
            atom = data
        elif is_transposed and _exchanges_last_two(call):
            is_transposed, sizes, atom = False, (sizes[0], sizes[2], sizes[1]), data
        elif turns(call, _TRANSPOSED if is_transposed else BY_HEADS) and _matrices(shape_of(call)) == sizes:
            return Operand(data, factor, by_positions=True)
        elif not is_transposed and _repeats_heads(call):
            sizes, atom = _matrices(shape_of(data)), data
        else:
            break
    if is_transposed or len(shape_of(atom)) != 4 or _matrices(shape_of(atom)) != sizes:
        return None
    return Operand(atom, factor, by_positions=False)


def _matrices(shape: Shape) -> Shape:
    """The sizes of a tensor whose axes before the last two are one."""
    return (product(shape[:-2]), *shape[-2:])


def _is_view(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.pattern is OpPattern.RESHAPE


def _exchanges_last_two(call: Call) -> bool:
    rank = len(shape_of(call))
    return turns(call, [*range(rank - 2), rank - 1, rank - 2])


def _repeats_heads(call: Call) -> bool:
    """Whether each matrix of axis 1 is repeated, along that axis or along an axis of size 1 after it."""
    rank, data = len(shape_of(call)), call.args[0]
    if call.op is get("repeat") and rank == 4:
        return call.attrs.axis is not None and call.attrs.axis % rank == 1
    if call.op is get("repeat") or call.op is get("tile") or _is_of(call, _BROADCASTS):
        have, made = shape_of(data), shape_of(call)
        return rank == len(have) == 5 and const(have[2]) == 1 and (*have[:2], *have[3:]) == (*made[:2], *made[3:])
    return False


# ---- scores ------------------------------------------------------------------------------------------------------------------


def weights(atom: Expr, sole: Definition, definition: Definition, uses: Callable[[Expr], int]) -> tuple[Call, bool] | None:
    """The softmax along the last axis behind ``atom`` and reshapes, and whether NaN among its elements are replaced by 0."""
    call = sole(without_views(atom, sole))
    zero_nan = call is not None and call.op is get("where")
    if call is not None and zero_nan:
        check = sole(call.args[0])
        is_so = check is not None and check.op is get("isnan") and check.args[0] is call.args[2] and uses(call.args[2]) == 2
        call = definition(call.args[2]) if is_so and _number(call.args[1]) == 0 else None
    if call is None or call.op is not get("nn.softmax"):
        return None
    rank = len(shape_of(call))
    return (call, zero_nan) if rank >= 2 and call.attrs.axis % rank == rank - 1 else None


def scores(atom: Expr, sole: Definition) -> Scores | None:
    """The scores of a softmax, whose values have no other use; None for any other value."""
    scale, cap, biases, values = 1.0, 0.0, list[Bias](), [atom]
    while (call := sole(atom)) is not None and _is_of(call, _IN_SCORES):
        found = scaled(call)
        if found is not None:
            scale, atom = scale * found[0], found[1]
        elif call.op is get("reshape"):
            atom = call.args[0]
        elif call.op is get("tanh") and not cap and scale > 0:
            cap, scale, atom = scale, 1.0, call.args[0]
        elif call.op is get("nn.batch_matmul"):
            at = batched_product(call)
            return None if at is None else Scores(at, scale * (cap or 1.0), cap, tuple(biases), tuple(values))
        else:
            bias = _bias(call, sole) if scale == 1.0 and not cap else None
            if bias is None:
                return None
            biases.append(bias[0])
            atom = bias[1]
        values.append(atom)
    return None


def _bias(call: Call, sole: Definition) -> tuple[Bias, Expr] | None:
    """The bias that a sum adds, or the condition of a choice between scores and a number, and the scores."""
    shape = shape_of(call)

    def are_scores(x: Expr) -> bool:
        inner = sole(x)
        return shape_of(x) == shape and inner is not None and _is_of(inner, _IN_SCORES)

    if call.op is get("add"):
        for data, other in (call.args[::-1], call.args):
            if are_scores(other) and (const(product(shape_of(data))) != 1 or not isinstance(data, Constant)):
                return Bias(data, shape), other
    if call.op is get("where"):
        condition, then, otherwise = call.args
        for other, instead, keeps in ((then, otherwise, True), (otherwise, then, False)):
            number = _number(instead)
            if isinstance(instead, Constant) and number is not None and number <= _ABSORBING and are_scores(other):
                return Bias(condition, shape, instead, keeps), other
    return None


def unbroadcast(atom: Expr, definition: Definition) -> Expr:
    """The tensor that is broadcast to ``atom``, without a check at run time, or ``atom``."""
    while (call := definition(atom)) is not None and _is_of(call, _BROADCASTS):
        have, made = shape_of(call.args[0]), shape_of(call)
        pairs = zip(have, made[len(made) - len(have) :], strict=True)
        if not all(a is b or const(a) == 1 for a, b in pairs):
            break
        atom = call.args[0]
    return atom
