"""Shape functions and their per-input data dependence, registered beside their bodies.

A shape function is written once and runs once per call site, at compile time, over symbolic dimensions::

    @register_shape_func("dyn.reshape", data_dependent=[False, True])
    def dyn_reshape(inputs, attrs):
        data, newshape = inputs
        ...                       # may read data.shape, newshape.shape and newshape.values
        return out_shape

Ranks are static, so what comes out of that one run is the static type, the run-time program and the planner's size.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from .dims import Dim, IntLike, Shape, const, dim


class ShapeError(Exception):
    """Shapes that do not fit.  ``input`` is the position of the operand at fault (None: all), ``axis`` its axis."""

    def __init__(self, message: str, *, input: int | None = None, axis: int | None = None) -> None:
        super().__init__(message)
        self.message, self.input, self.axis = message, input, axis


class NeedsData(ShapeError):
    """A shape function read the values of an input whose flag says that it needs only the shape."""


@dataclass(frozen=True)
class Operand:
    """What a shape function sees of one tensor: its shape, its dtype and, where the input is flagged, its values.

    ``data`` holds the values in row-major order (one for a scalar).  Integers and bools are Dims; floats come as the
    int64 bit pattern of their float64 value (``arange`` is the one user).
    """

    shape: Shape
    dtype: str
    data: Shape | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def values(self) -> Shape:
        """The values.  Raises NeedsData when the input was not flagged."""
        if self.data is None:
            raise NeedsData("this shape function needs the data of an input that is not flagged data-dependent")
        return self.data


Inputs = tuple["Operand | tuple[Operand, ...]", ...]  # a tuple input arrives as a tuple of operands
#: ``(inputs, attrs) -> shape`` for one output, ``-> [shape, ...]`` for several.
ShapeFuncBody = Callable[[Any, Any], Any]


@dataclass(frozen=True)
class ShapeFunc:
    """A shape function with its flags.

    ``data_dependent`` has one flag per input of the operator (or a single one, which then holds for every input).
    ``upper_bound`` says that the result contains ``result_size`` dims: the kernel reports the true sizes.
    """

    name: str
    body: ShapeFuncBody
    data_dependent: tuple[bool, ...]
    upper_bound: bool = False

    def flags(self, n_inputs: int) -> tuple[bool, ...]:
        """One flag per input."""
        return self.data_dependent * n_inputs if len(self.data_dependent) == 1 else self.data_dependent


SHAPE_FUNCS: dict[str, ShapeFunc] = {}


def register_shape_func(
    name: str, data_dependent: bool | Sequence[bool] = False, *, upper_bound: bool = False
) -> Callable[[ShapeFuncBody], ShapeFuncBody]:
    """Register the decorated body as the shape function of operator ``name``.

    ``data_dependent``: one flag per input saying whether the body reads that input's *values* (a single bool holds
    for all inputs).  Raises ValueError when the operator has one already.
    """
    flags = (data_dependent,) if isinstance(data_dependent, bool) else tuple(data_dependent)

    def register(body: ShapeFuncBody) -> ShapeFuncBody:
        if name in SHAPE_FUNCS:
            raise ValueError(f"operator {name!r} has a shape function already")
        SHAPE_FUNCS[name] = ShapeFunc(name, body, flags, upper_bound)
        return body

    return register


#: What `replace_shape_func` put something else in the place of; None: there was none of that name.
_REPLACED: dict[str, ShapeFunc | None] = {}


def replace_shape_func(new: ShapeFunc) -> None:
    """Put ``new`` in the place of the shape function of its name, until `restore_shape_func`."""
    _REPLACED.setdefault(new.name, SHAPE_FUNCS.get(new.name))
    SHAPE_FUNCS[new.name] = new


def restore_shape_func(name: str) -> None:
    """The shape function that ``name`` had before `replace_shape_func`.  Raises ValueError where none was replaced."""
    if name not in _REPLACED:
        raise ValueError(f"the shape function of operator {name!r} was not replaced")
    before = _REPLACED.pop(name)
    if before is None:
        del SHAPE_FUNCS[name]
    else:
        SHAPE_FUNCS[name] = before


# ---- run-time checks -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """``condition`` must not be 0 at run time; ``message`` has a ``{}`` for each of ``operands``."""

    condition: Dim
    message: str
    operands: tuple[Dim, ...] = ()


@dataclass
class Trace:
    """What one run of shape functions recorded."""

    checks: list[Check] = field(default_factory=list)


_active = threading.local()


@contextlib.contextmanager
def tracing() -> Iterator[Trace]:
    """Collect the checks of the shape functions that run inside."""
    outer, trace = getattr(_active, "trace", None), Trace()
    _active.trace = trace
    try:
        yield trace
    finally:
        _active.trace = outer


def check(condition: IntLike, message: str, *operands: IntLike, input: int | None = None, axis: int | None = None) -> None:
    """Require ``condition``: at once when it is known (raises ShapeError), at run time otherwise.

    ``message`` is a format string with one ``{}`` per operand, e.g. ``"sizes {} and {} do not broadcast"``.
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
