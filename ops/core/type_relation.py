"""Type relations of calls at compile time, and shape programs of primitives for run time.

Both derive from one run of the operator's shape function over symbolic dims, ``apply_shape_func``.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...shape_funcs.relay_flags import RELAY_FLAGS
from ...shape_funcs.symbolic.dim import (
    ANY,
    INT,
    MAX_RANK,
    POLY,
    RESULT,
    Dim,
    Shape,
    const,
    dim,
    element_of,
    is_nonneg,
    is_static,
    postorder,
    product,
    unnamed,
)
from ...shape_funcs.symbolic.dim_operations import substitute
from ...shape_funcs.symbolic.int_operations import INT64_MAX, INT64_MIN
from ...shape_funcs.symbolic.program import (
    DATA,
    SIZE,
    Load,
    ShapeProgram,
    as_word,
    assemble,
    constant_dims,
)
from ...shape_funcs.symbolic.registry import Check, Operand, ShapeError, ShapeFunc, tracing
from .attrs import check_attrs, text_of
from .copy_reason import CopyKind, CopyReason
from .group import Group, Literal, Node
from .op import Op, TypeRelError
from .tensor_types import Tensor, TensorType, TupleType, Type, is_float, known_extent

#: Maximum number of run-time values of an input: symbolic arithmetic over more values takes too long.
MAX_VALUES = 4096
#: Maximum depth of a dim of a type; a deeper expression is replaced by a symbol.
MAX_DEPTH = 16
_calls = itertools.count()
_PACKAGE = __name__.partition(".")[0] + "."
#: The most applications of shape functions that are kept.
MAX_APPLIED = 1 << 13
#: Results of shape functions, by operator, operands and attributes: passes ask again, and networks repeat their layers.
_applied: dict[tuple[Any, ...], _Applied] = {}


@dataclass(eq=False)
class _Applied:
    """The result of a shape function; ``type``: the type of the call, once it is known to have no symbols of its own."""

    tensors: tuple[Tensor, ...]
    checks: tuple[Check, ...]
    type: Type | None = None


def relate(op: Op, types: Sequence[Any], attrs: Any, constants: Sequence[Any] | None = None) -> tuple[Type, tuple[Check, ...]]:
    """The result type of a call of ``op``, and the checks left for run time.

    ``types``: a TensorType per input, or a tuple of TensorTypes for a tuple input; ``constants``: the same structure, a numpy
    array for each known value, else None; a tuple for a tensor of which some elements are known, each a Dim or None.  Every dim
    of the result is a valid size: a constant >= 0, an expression known to be >= 0, or a new symbol.  Raises TypeRelError.
    """
    operands = typed_operands(op, types, constants)
    applied = _apply(op, operands, attrs)
    if applied.type is not None:
        return applied.type, applied.checks
    named: dict[Dim, Dim] = {}
    out = [TensorType(tuple(_as_size(d, named) for d in t.shape), t.dtype) for t in applied.tensors]
    found = TupleType(tuple(out)) if isinstance(op.dtype(dtypes_of(operands), attrs), tuple) else out[0]
    if not named:
        applied.type = found
    return found, applied.checks


def apply_shape_func(op: Op, operands: Sequence[Any], attrs: Any) -> tuple[tuple[Tensor, ...], tuple[Check, ...]]:
    """Apply dtype rule and shape function of ``op`` to ``operands`` (Operands, or tuples of Operands).

    The results' shapes are the unchanged result of the shape function; they may hold ``result_size`` dims.  Raises TypeRelError,
    also for a call that must be legalized first.
    """
    applied = _apply(op, operands, attrs)
    if not op.is_legal(dtypes_of(operands), attrs):
        raise TypeRelError(f"{op.name}: no kernel takes inputs of the dtypes {dtypes_of(operands)}")
    return applied.tensors, applied.checks


def _apply(op: Op, operands: Sequence[Any], attrs: Any) -> _Applied:
    """``apply_shape_func`` for any call that the dtype rule accepts: the shape of a call that is legalized is that of its
    expansion."""
    shape_func = op.shape_func
    is_own = type(attrs) is op.attrs and _is_of_package(op, shape_func)
    key = (op, shape_func, tuple(operands), text_of(attrs)) if is_own else None
    found = None if key is None else _applied.get(key)
    if found is None:
        check_attrs(op, attrs)
        found = _applied_anew(op, operands, attrs)
        if key is not None and _is_determined(op, operands, attrs):
            if len(_applied) >= MAX_APPLIED:
                _applied.clear()
            _applied[key] = found
    return found


@lru_cache(maxsize=1 << 12)
def _is_of_package(op: Op, shape_func: ShapeFunc) -> bool:
    """Whether all that decides the shape of a call of ``op`` is this package's, not a user's."""
    return all(part.__module__.startswith(_PACKAGE) for part in (op.dtype, shape_func.body, op.attrs))


def _is_determined(op: Op, operands: Sequence[Any], attrs: Any) -> bool:
    """Whether a call's shape follows from the operands: not that of an expansion, which may have new symbols."""
    try:
        return op.is_legal(dtypes_of(operands), attrs)
    except ShapeError:
        return False  # of wrong attributes, which the shape function names


def _applied_anew(op: Op, operands: Sequence[Any], attrs: Any) -> _Applied:
    try:
        dtypes = op.dtype(dtypes_of(operands), attrs)
        with tracing() as trace:
            if op.legalization is not None and not op.is_legal(dtypes_of(operands), attrs):
                term = op.legalization.expand(op, tuple(operands), attrs)
                made = term if isinstance(term, tuple) else (term.operand, *getattr(term, "others", ()))
                shapes = [r.shape for r in made]
            else:
                shapes = op.shape_func.body(tuple(operands), attrs)
    except TypeRelError as error:
        raise TypeRelError(_named(op, error.message), input=error.input, help=error.help) from None
    except ShapeError as error:
        raise TypeRelError(_named(op, error.message), input=error.input) from None
    several = dtypes if isinstance(dtypes, tuple) else (dtypes,)
    if not (isinstance(shapes, list) and all(isinstance(s, (tuple, list)) for s in shapes)):
        shapes = [shapes]
    if len(shapes) != len(several):
        raise TypeRelError(f"{op.name}: its shape function gives {len(shapes)} shapes and its dtype rule {len(several)} dtypes")
    tensors = tuple(Tensor(dtype, tuple(map(dim, s))) for dtype, s in zip(several, shapes, strict=True))
    for t in tensors:
        _check_shape(op, t)
    _check_numbers(op, [d for c in trace.checks for d in (c.condition, *c.operands)])
    return _Applied(tensors, tuple(Check(c.condition, _named(op, c.message), c.operands) for c in trace.checks))


def host_reads(op: Op, dependence: str = "input") -> tuple[CopyReason | None, ...]:
    """Per input, the reason why its data must be on the host for the shape function; None: its shape suffices.

    ``dependence``: ``input``: the operator's flags; ``op``: one flag per operator, set if any input is flagged;
    ``relay``: the flags of Relay's last version.
    """
    flags = op.data_dependent
    added, kind = flags, CopyKind.FLAGGED
    if dependence == "op":
        added, kind = (any(flags),) * len(flags), CopyKind.PER_OP
    elif dependence == "relay":
        added, kind = RELAY_FLAGS.get(op.name, flags), CopyKind.RELAY
    return tuple(
        CopyReason(CopyKind.FLAGGED if flag else kind, op.name, name.rstrip("*")) if flag or other else None
        for name, flag, other in zip(op.inputs, flags, added, strict=True)
    )


# ---- primitives --------------------------------------------------------------------------------------------------


class Need(enum.IntFlag):
    """Requirements of a primitive's shape function on a parameter (Relay's numbers)."""

    NONE = 0
    DATA = 1
    SHAPE = 2
    BOTH = 3


@frozen
class PrimitiveShape:
    """The run-time shapes of a primitive.

    ``program``: a shape program whose inputs are the group's parameters; its outputs are the group's results, then the
    additional sizes of ``shape_program``.  It must run if a result is not static *or* the program has checks.
    ``states``: the Need of each parameter.
    ``counts``: ``(result, index)`` for each result whose first axis is trimmed to the kernel's count ``index``.
    ``host_reads``: per parameter, the reasons why its data must be on the host.
    """

    program: ShapeProgram
    states: tuple[Need, ...]
    counts: tuple[tuple[int, int], ...]
    host_reads: tuple[tuple[CopyReason, ...], ...]


def build_group(params: Iterable[Tensor], literals: Iterable[Literal], nodes: Iterable[Node], results: Iterable[int]) -> Group:
    """The group with these fields; the ``outputs`` of ``nodes`` are derived, not read.

    An output dim may be an expression over the parameters' dims and elements (``element_of``), or a ``result_size``.
    Raises TypeRelError.
    """
    inference = _infer(Group(tuple(params), tuple(literals), tuple(nodes), ()))
    return Group(inference.params, inference.literals, tuple(inference.nodes), tuple(results))


def shape_program(
    group: Group, dependence: str = "input", sizes: Sequence[Dim] = (), checks: Sequence[Check] = ()
) -> PrimitiveShape:
    """The shape program of ``group`` and its requirements on the parameters.

    ``sizes``: additional sizes over the parameters' dims; each is an additional output, a vector of one element.  ``checks``:
    additional checks.

    A parameter's state reflects the actual loads of the program.  With a ``dependence`` other than ``input`` (see
    ``host_reads``), the state of each flagged parameter includes DATA, even if none of its elements is loaded.
    """
    inference = _infer(group)
    outputs = [inference.values[r].shape for r in group.results]
    counts = counts_of(outputs)
    outputs += [(s,) for s in sizes]
    loads: dict[Dim, Load] = dict(inference.loads)
    for p, tensor in reversed(list(enumerate(group.params))):
        # reversed, so that a dim is loaded from the first parameter that has it
        loads.update({d: (p, SIZE, axis) for axis, d in reversed(list(enumerate(tensor.shape))) if const(d) is None})
    try:
        program = assemble(outputs, [*inference.checks, *checks], loads)
    except ShapeError as error:
        raise TypeRelError(f"{group.name}: {error.message}") from None
    states = [Need.NONE] * len(group.params)
    for p, kind, _ in program.loads:
        states[p] |= Need.DATA if kind == DATA else Need.SHAPE
    reasons = _reasons_of_params(group, dependence)
    if dependence != "input":
        states = [s | Need.DATA if reasons[p] else s for p, s in enumerate(states)]
    reads = tuple(reasons[p] if s & Need.DATA else () for p, s in enumerate(states))
    return PrimitiveShape(program, tuple(states), counts, reads)


def checks_and_loads(group: Group) -> tuple[tuple[Check, ...], dict[Dim, Load]]:
    """The run-time checks of the operators of ``group``, and the load of each run-time value."""
    inference = _infer(group)
    return tuple(inference.checks), dict(inference.loads)


class Inference:
    """Shape inference over the nodes of a group, in order."""

    def __init__(self, params: Iterable[Tensor], literals: Iterable[Literal]) -> None:
        self.params, self.literals = tuple(params), tuple(literals)
        self.values: list[Tensor] = [*self.params, *(Tensor(c.dtype, ()) for c in self.literals)]
        self.nodes: list[Node] = []
        self.checks: list[Check] = []
        self.loads: dict[Dim, Load] = {}  # run-time values

    def add(self, node: Node) -> None:
        """Append ``node`` and infer its outputs.  Raises TypeRelError."""
        op = node.operator
        _check_arity(op, node.args)
        operands = [
            tuple(self._operand(op, r, f) for r in a) if isinstance(a, tuple) else self._operand(op, a, f)
            for a, f in zip(node.args, op.data_dependent, strict=True)
        ]
        outputs, checks = apply_shape_func(op, operands, node.attrs)
        self.checks += [c for c in checks if c not in self.checks]
        self.values += outputs
        self.nodes.append(Node(node.op, node.attrs, node.args, outputs))

    def _operand(self, op: Op, ref: int, flagged: bool) -> Operand:
        tensor, literal = self.values[ref], ref - len(self.params)
        if not flagged:
            return Operand(tensor.shape, tensor.dtype)
        if literal >= len(self.literals):
            raise TypeRelError(f"{op.name}: a fused value feeds an input whose data decides the shape")
        if literal >= 0:
            value = self.literals[literal].value
            return Operand((), tensor.dtype, (dim(as_word(float(value) if is_float(tensor.dtype) else value)),))
        named = {element_of(ref, k): (ref, DATA, k) for k in range(_n_values(tensor.shape))}
        self.loads.update(named)
        return Operand(tensor.shape, tensor.dtype, tuple(named))


def _infer(group: Group) -> Inference:
    inference = Inference(group.params, group.literals)
    for node in group.nodes:
        inference.add(node)
    return inference


def _reasons_of_params(group: Group, dependence: str) -> list[tuple[CopyReason, ...]]:
    out: list[list[CopyReason]] = [[] for _ in group.params]
    for node in group.nodes:
        for arg, reason in zip(node.args, host_reads(node.operator, dependence), strict=True):
            for ref in arg if isinstance(arg, tuple) else (arg,):
                if reason is not None and ref < len(out) and reason not in out[ref]:
                    out[ref].append(reason)
    return [tuple(x) for x in out]


def counts_of(outputs: Sequence[Shape]) -> tuple[tuple[int, int], ...]:
    """``(result, index)`` for each result whose first axis has the size reported as the kernel's count ``index``."""
    for shape in outputs:
        rest = () if is_static(shape) else postorder(shape)
        assert all(d.op != RESULT for d in rest if d not in shape[:1]), "only the first axis can be trimmed"
    return tuple((k, s[0].args[1]) for k, s in enumerate(outputs) if s and s[0].op == RESULT)


# ---- operands ----------------------------------------------------------------------------------------------------


def typed_operands(op: Op, types: Sequence[Any], constants: Sequence[Any] | None) -> list[Any]:
    """The operands of the shape function for arguments of these types; ``constants``: the known values, or None."""
    _check_arity(op, types)
    known = list(constants) if constants is not None else [None] * len(types)
    flags = op.data_dependent
    prefix, count = f"v{next(_calls)}", itertools.count()

    def unknown() -> Dim:
        return unnamed(f"{prefix}.{next(count)}", is_size=False)

    def operand(i: int, ty: Any, value: Any) -> Operand:
        if not isinstance(ty, TensorType):
            raise TypeRelError(f"{op.name}: {_input(op, i)} must be a tensor, not {ty}", input=i)
        assert not any(d is ANY for d in ty.shape), "a type of which type inference has not named every dim"
        if not flags[i]:
            return Operand(ty.shape, ty.dtype)
        if value is not None and not isinstance(value, tuple):
            return Operand(ty.shape, ty.dtype, constant_dims(value))
        try:
            elements = (None,) * _n_values(ty.shape) if value is None else value
        except TypeRelError as error:
            raise TypeRelError(f"{op.name}: {_input(op, i)} {error.message}", input=i) from None
        return Operand(ty.shape, ty.dtype, tuple(unknown() if e is None else e for e in elements))

    out: list[Any] = []
    for i, (ty, value) in enumerate(zip(types, known, strict=True)):
        if op.inputs[i].endswith("*"):
            fields = ty.fields if isinstance(ty, TupleType) else ty
            values = value if value is not None else (None,) * len(fields)
            out.append(tuple(operand(i, t, v) for t, v in zip(fields, values, strict=True)))
        else:
            out.append(operand(i, ty, value))
    return out


def _n_values(shape: Shape) -> int:
    n = const(product(shape))
    if n is None:
        raise TypeRelError("decides a shape, so how many elements it has must be known at compile time; its size is unknown")
    if n > MAX_VALUES:
        raise TypeRelError(f"decides a shape, so it can have at most {MAX_VALUES} elements; it has {n}")
    return n


def _check_arity(op: Op, args: Sequence[Any]) -> None:
    wanted = len(op.inputs)
    if len(args) != wanted:
        names = ", ".join(op.inputs)
        raise TypeRelError(f"{op.name}: takes {wanted} argument{'s' * (wanted != 1)} ({names}), got {len(args)}")
    for i, (name, arg) in enumerate(zip(op.inputs, args, strict=True)):
        if name.endswith("*") and not isinstance(arg, (tuple, TupleType)):
            raise TypeRelError(f"{op.name}: {_input(op, i)} must be a tuple of tensors, not {arg}", input=i)
        if not name.endswith("*") and isinstance(arg, (tuple, TupleType)):
            raise TypeRelError(f"{op.name}: {_input(op, i)} must be a tensor, not a tuple", input=i)


def _input(op: Op, i: int) -> str:
    return f"argument {i + 1} ({op.inputs[i].rstrip('*')})"


def dtypes_of(operands: Sequence[Any]) -> tuple[Any, ...]:
    """The dtypes of operands; a tuple of them for a tuple input."""
    return tuple(tuple(x.dtype for x in o) if isinstance(o, tuple) else o.dtype for o in operands)


def _named(op: Op, message: str) -> str:
    return message if message.startswith(f"{op.name}: ") else f"{op.name}: {message}"


def _check_shape(op: Op, tensor: Tensor) -> None:
    shape = tensor.shape
    if len(shape) > MAX_RANK:
        raise TypeRelError(f"{op.name}: the result would have {len(shape)} dimensions; at most {MAX_RANK} are possible")
    for axis, d in enumerate(shape):
        known = const(d)
        if known is not None and not 0 <= known <= INT64_MAX:
            raise TypeRelError(f"{op.name}: axis {axis} of the result would have the size {known}")
    _check_numbers(op, shape)
    elements, nbytes = known_extent(shape, tensor.dtype)
    if elements > INT64_MAX:
        raise TypeRelError(f"{op.name}: the known sizes of the result already make {elements} elements")
    if nbytes > INT64_MAX:
        raise TypeRelError(f"{op.name}: the known sizes of the result already make {nbytes} bytes")


def _check_numbers(op: Op, dims: Iterable[Dim]) -> None:
    """Raise TypeRelError for a number in ``dims`` that does not fit int64."""
    for part in postorder(d for d in dims if d.is_wide):
        numbers = part.args if part.op == INT else [n for n, _ in part.args] if part.op == POLY else ()
        for number in numbers:
            if not INT64_MIN <= number <= INT64_MAX:
                raise TypeRelError(f"{op.name}: its shapes are computed with {number}, which does not fit into 64 bits")


def _as_size(d: Dim, named: dict[Dim, Dim]) -> Dim:
    """``as_size`` after replacing the kernel's counts in ``d`` by symbols, recorded in ``named``."""
    if not d.has_result:
        return as_size(d)
    for part in postorder([d]):
        if part.op == RESULT and part not in named:
            named[part] = unnamed(f"r{next(_calls)}")
    return as_size(substitute(d, named))


def as_size(d: Dim) -> Dim:
    """``d`` as the size of a type: ``d`` itself, or a symbol if ``d`` may be negative or is nested too deeply."""
    if is_nonneg(d) and d.depth <= MAX_DEPTH:
        return d
    # named after the expression, so that equal expressions get the same symbol
    return unnamed(f"({d.key})")
