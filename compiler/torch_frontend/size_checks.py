"""Checks at run time: the sizes for which a program was exported, and the conditions that it asserts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...vm.diagnostics import codes
from ...vm.diagnostics.source import ModelError
from ..builder.build import const
from ..builder.operator_functions import operators as relay
from ..ir.expr import Expr
from ..onnx_frontend.run_time_checks import check_axis, check_vectors, literal
from ..onnx_frontend.scope import constant
from .torch_node import TorchNode

#: Bounds from here on are none, and lower bounds up to here: torch's assumption of each open size.
_UNBOUNDED, _ASSUMED = 2**62, 2


def check(node: TorchNode, condition: Expr, message: str) -> None:
    """Check a condition that the program asserts.  ``message``: the program's text."""
    check_equal(node, node.cast(condition, "int64"), const(1, "int64"), f"{literal(message)} ({{}} of {{}} conditions hold)")


def check_equal(node: TorchNode, given: Expr, wanted: Expr, message: str) -> None:
    """Check that two numbers of int64, which are not negative, are equal.  ``message`` has two ``{}`` for them."""
    if not _is_known_to_hold(node, given, wanted):
        check_vectors(node, _vector_of(node, given), _vector_of(node, wanted), message)


def _check_extent(node: TorchNode, x: Expr, axis: int, wanted: Expr, message: str) -> None:
    """Check that an axis of a tensor has the size ``wanted``.  ``message`` has a ``{}`` for each of the two sizes."""
    if not _is_known_to_hold(node, node.extent(x, axis), wanted):
        check_axis(node, x, axis, _vector_of(node, wanted), message)


def _is_known_to_hold(node: TorchNode, given: Expr, wanted: Expr) -> bool:
    held = node.constant(node.bind(relay.equal(given, wanted)))
    return held is not None and bool(held)


def _vector_of(node: TorchNode, size: Expr) -> Expr:
    """A vector of a size: the machine compares sizes of tensors."""
    return node.bind(relay.full(constant(np.array(False)), node.bind(relay.reshape(size, [1])), "bool"))


class SizeChecks:
    """The sizes of the inputs, as expressions of torch's symbols.  ``has_least``: whether lower bounds are checked."""

    def __init__(self, node: TorchNode, ranges: Mapping[Any, Any], has_least: bool = True) -> None:
        self.node, self.ranges, self.has_least = node, ranges, has_least
        #: The value of each symbol, and the place where a message says that it is.
        self.values: dict[Any, Expr] = {}
        self.origins: dict[Any, str] = {}
        #: The input and the axis whose size a symbol is.
        self.axes: dict[Any, tuple[Expr, int]] = {}

    def add(self, inputs: Sequence[tuple[str, Expr, Sequence[Any]]]) -> None:
        """Check the sizes of inputs: their names, values, and the symbolic sizes of their axes."""
        axes = [(name, x, axis, size.node.expr) for name, x, shape in inputs for axis, size in enumerate(shape) if _is_open(size)]
        for name, x, axis, expr in axes:
            if expr.is_Symbol and expr not in self.values:
                self._define(expr, self.node.extent(x, axis), f"the size of axis {axis} of %{name}")
                self.axes[expr] = x, axis
        derived = [a for a in axes if not a[3].is_Symbol]
        for name, x, axis, expr in derived:
            self._solve(expr, self.node.extent(x, axis), f"the size of axis {axis} of %{name}")
        for name, x, axis, expr in derived:
            message = f"{literal(str(expr))} is the size of axis {axis} of %{literal(name)}, which is {{}}, not {{}}"
            _check_extent(self.node, x, axis, self.value(expr), message)
        for symbol, value in self.values.items():
            self._check_range(symbol, value)

    def _define(self, symbol: Any, value: Any, origin: str) -> None:
        self.values[symbol], self.origins[symbol] = value, origin

    def _solve(self, expr: Any, size: Expr, origin: str) -> None:
        """Define the symbol of ``a * s + b`` by the size."""
        unknown = [s for s in expr.free_symbols if s not in self.values]
        if len(unknown) != 1:
            return
        factor, rest = expr.coeff(unknown[0], 1), expr.coeff(unknown[0], 0)
        if factor.is_Integer and (factor * unknown[0] + rest - expr).is_zero and int(factor) > 0 and not rest.has(unknown[0]):
            left = relay.subtract(size, self.value(rest))
            self._define(unknown[0], self.node.bind(relay.floor_divide(left, const(int(factor), "int64"))), origin)

    def value(self, expr: Any) -> Expr:
        """The value of an expression of symbols.  Raises ModelError."""
        if expr.is_Integer:
            return const(int(expr), "int64")
        if expr in self.values:
            return self.values[expr]
        if expr.is_Add or expr.is_Mul:
            function, (first, *others) = (relay.add if expr.is_Add else relay.multiply), expr.args
            total = self.value(first)
            for other in others:
                total = function(total, self.value(other))
            return self.node.bind(total)
        message = f"the size {expr} of an input follows from no size of an axis"
        raise ModelError(message, help="mark the axis with Dim.DYNAMIC or a Dim of its own", code=codes.Model.TYPE)

    def _check_range(self, symbol: Any, value: Expr) -> None:
        low, high = bounds(self.ranges.get(symbol))
        low = low if self.has_least else None
        nearest = value
        for bound, function in ((low, relay.maximum), (high, relay.minimum)):
            nearest = nearest if bound is None else self.node.bind(function(nearest, const(bound, "int64")))
        if nearest is not value:
            message = f"{literal(self.origins[symbol])} is {{}}; the nearest size that the program was exported for is {{}}"
            if symbol in self.axes:
                _check_extent(self.node, *self.axes[symbol], nearest, message)
            else:
                check_equal(self.node, value, nearest, message)


def _is_open(size: Any) -> bool:
    return not isinstance(size, int) and not size.node.expr.is_number


def bounds(found: Any) -> tuple[int | None, int | None]:
    """The least and the largest number of a range of torch's; None where it has no bound.

    torch takes each open size to be 2 or more, unless a ``Dim`` says otherwise: that is no bound of the program.
    """
    if found is None:
        return None, None
    low = int(found.lower) if found.lower.is_Integer and int(found.lower) > _ASSUMED else None
    high = int(found.upper) if found.upper.is_Integer and int(found.upper) < _UNBOUNDED else None
    return low, high
