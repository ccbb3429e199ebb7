"""Registry of shape functions and their data-dependence flags per input.

A shape function runs once per call site, at compile time, over symbolic dimensions::

    @register_shape_func("dyn.reshape", data_dependent=[False, True])
    def dyn_reshape(inputs, attrs):
        data, newshape = inputs
        ...                       # may read data.shape, newshape.shape and newshape.values
        return out_shape

Ranks are static, so a single run yields the static type, the run-time program and the storage size for the memory planner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...declarations.frozen_dataclass import frozen
from ...declarations.late_registry import LateRegistry
from .dim import Dim, IntLike, Shape, const, dim


class ShapeError(Exception):
    """Incompatible shapes.  ``input``: the position of the operand at fault (None: all); ``axis``: its axis."""

    def __init__(self, message: str, *, input: int | None = None, axis: int | None = None) -> None:
        super().__init__(message)
        self.message, self.input, self.axis = message, input, axis


class NeedsData(ShapeError):
    """Read access of a shape function to the values of an input that is not flagged data-dependent."""


@frozen
class Operand:
    """A tensor argument of a shape function: its shape, its dtype and, if the input is flagged, its values.

    ``data``: the values in row-major order (one for a scalar).  Integers and bools are Dims; a float is the int64 bit pattern of
    its float64 value (used by ``arange`` and upsampling).
    """

    shape: Shape
    dtype: str
    data: Shape | None = None

    def __hash__(self) -> int:
        # a Dim is equal to no other Dim, and a number takes longer to hash
        return hash((*map(id, self.shape), self.dtype, self.data))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def values(self) -> Shape:
        """The values.  Raises NeedsData if the input is not flagged."""
        if self.data is None:
            raise NeedsData(
                "this shape function needs the data of an input that is not flagged data-dependent: flag it by "
                "`data_dependent=`, or give an upper bound by `result_size` if only the kernel knows the size"
            )
        return self.data


Inputs = tuple["Operand | tuple[Operand, ...]", ...]  # a tuple input is a tuple of operands
#: ``(inputs, attrs) -> shape`` for one output, ``-> [shape, ...]`` for several.
ShapeFuncBody = Callable[[Any, Any], Any]


@frozen
class InputFlags:
    """Whether a shape function reads the values of its inputs.  ``flags``: a bool per input, or one bool for all inputs."""

    flags: bool | tuple[bool, ...]

    @staticmethod
    def of(declared: bool | Sequence[bool]) -> InputFlags:
        """The flags as a registration declares them."""
        return InputFlags(declared if isinstance(declared, bool) else tuple(declared))

    def fit(self, count: int) -> bool:
        """Whether an operator of ``count`` inputs can have these flags."""
        return isinstance(self.flags, bool) or len(self.flags) == count

    def of_inputs(self, count: int) -> tuple[bool, ...]:
        """One flag for each of ``count`` inputs."""
        return (self.flags,) * count if isinstance(self.flags, bool) else self.flags


@frozen
class ShapeFunc:
    """A shape function with its flags.

    ``upper_bound``: whether the result contains ``result_size`` dims, whose true sizes the kernel reports.
    """

    name: str
    body: ShapeFuncBody
    data_dependent: InputFlags
    upper_bound: bool = False


SHAPE_FUNCS: LateRegistry[ShapeFunc] = LateRegistry()


def register_shape_func(
    name: str, data_dependent: bool | Sequence[bool] = False, *, upper_bound: bool = False
) -> Callable[[ShapeFuncBody], ShapeFuncBody]:
    """Register the decorated body as the shape function of operator ``name``.

    ``data_dependent``: per input, whether the body reads the input's *values*; a single bool holds for all inputs.
    ``upper_bound``: whether the result contains ``result_size`` dims.  Raises ValueError if the operator has a shape function.
    """
    flags = InputFlags.of(data_dependent)

    def register(body: ShapeFuncBody) -> ShapeFuncBody:
        if SHAPE_FUNCS.has_declared(name):
            raise ValueError(f"operator {name!r} has a shape function already")
        SHAPE_FUNCS[name] = ShapeFunc(name, body, flags, upper_bound)
        return body

    return register


#: The original shape functions of replaced names (see `replace_shape_func`); None: the name was not registered.
_REPLACED: dict[str, ShapeFunc | None] = {}


def are_replaced() -> bool:
    """Whether a shape function replaces another."""
    return bool(_REPLACED)


def replace_shape_func(new: ShapeFunc) -> None:
    """Replace the shape function of ``new.name`` by ``new``, until `restore_shape_func`."""
    _REPLACED.setdefault(new.name, SHAPE_FUNCS.get(new.name))
    SHAPE_FUNCS[new.name] = new


def restore_shape_func(name: str) -> None:
    """Undo `replace_shape_func` for ``name``.  Raises ValueError if the shape function was not replaced."""
    if name not in _REPLACED:
        raise ValueError(f"the shape function of operator {name!r} was not replaced")
    before = _REPLACED.pop(name)
    if before is None:
        del SHAPE_FUNCS[name]
    else:
        SHAPE_FUNCS[name] = before


def remove_shape_func(name: str) -> None:
    """Remove the shape function of ``name``, if there is any, and what it replaces."""
    _REPLACED.pop(name, None)
    SHAPE_FUNCS.pop(name, None)


# ---- run-time checks -------------------------------------------------------------------------------------------


@frozen
class Check:
    """A run-time check: ``condition`` must not be 0; ``message`` has a ``{}`` for each of ``operands``."""

    condition: Dim
    message: str
    operands: tuple[Dim, ...] = ()


@dataclass
class Trace:
    """Record of a run of shape functions: the checks left for run time."""

    checks: list[Check] = field(default_factory=list)


_active = threading.local()


class _Tracing:
    """The context of ``tracing``: a class, since a generator takes as long as a small shape function."""

    def __enter__(self) -> Trace:
        self._outer = getattr(_active, "trace", None)
        _active.trace = trace = Trace()
        return trace

    def __exit__(self, *_: object) -> None:
        _active.trace = self._outer


def tracing() -> _Tracing:
    """Record the checks of the shape functions that run inside the ``with`` block."""
    return _Tracing()


def check(condition: IntLike, message: str, *operands: IntLike, input: int | None = None, axis: int | None = None) -> None:
    """Require ``condition``: immediately if it is known (raises ShapeError), else at run time.

    ``message``: a format string with a ``{}`` for each operand, e.g. ``"sizes {} and {} do not broadcast"``.
    ``input``, ``axis``: position of the operand at fault and its axis, for the ShapeError.
    """
    condition, shown = dim(condition), tuple(dim(o) for o in operands)
    known = const(condition)
    if known == 0:
        raise ShapeError(message.format(*("?" if const(o) is None else o for o in shown)), input=input, axis=axis)
    if known is None:
        trace = getattr(_active, "trace", None)
        new = Check(condition, message, shown)
        if trace is not None and new not in trace.checks:
            trace.checks.append(new)
