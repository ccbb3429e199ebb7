"""Softmax of a row of float32 in whole vectors: the largest of its elements, and the powers of 2 that they become.

LLVM makes loops over rows of a few tens of elements from parts of four vectors and single elements, and the powers of single
elements take as long as those of vectors.  Here every vector is a register, the last one of a row masked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..memory import set_machine_form, twin
from .products.register_tile import panel_width, vector_bytes

#: ``2 ** r`` of a fraction ``r`` of at most 1/2: the coefficients of ``r``, the highest first; 1 comes last.  Within 2e-9 of it:
#: least squares on Chebyshev nodes, reweighted until the largest relative error is minimal.
_POWERS = (1.53533618e-4, 1.33988744e-3, 9.61843736e-3, 5.55033247e-2, 2.40226479e-1, 6.93147203e-1)
#: The exponents up to which powers, less than any normal number, are 0: a sum with 1 absorbs them.
LEAST = -126.5
#: 1.5 * 2 ** 23 leaves no bits for a fraction: a sum with it rounds, and its last bits are the whole number, here with the bias
#: of an exponent.  Of _LEAST_WHOLE the exponent is that of 0.
_BIAS = 127
_SHIFTER, _LEAST_WHOLE = 1.5 * 2**23 + _BIAS, -float(_BIAS)


@twin
def largest(x: Any, at: int, n: int) -> Any:
    """The largest of ``n`` elements from element ``at`` on that are not NaN: -inf of none.

    A contiguous array of float32.  Whole vectors are read: room for a multiple of ``panel_width`` elements.
    """
    return np.fmax.reduce(x.reshape(-1)[int(at) : int(at + n)], initial=np.float32(-np.inf))


@twin
def powers_of_two(x: Any, at: int, n: int, top: Any) -> Any:
    """Replace ``n`` elements by ``2 ** (x[at + i] - top)``, by NaN where that is NaN; the sum of the powers, added in float32.

    A contiguous array of float32.  No element is above ``top``.  Whole vectors are written, with zeros behind the last power, up
    to a multiple of ``panel_width`` elements at most.
    """
    flat = x.reshape(-1)
    exponents = flat[int(at) : int(at + n)] - np.float32(top)
    flat[int(at) : int(at + n)] = np.where(exponents <= LEAST, 0, np.exp2(exponents))
    return np.float32(flat[int(at) : int(at + n)].sum(dtype=np.float32))


def _form(kind: Callable[[Any, list[Any]], _Row]) -> Callable[[], Any]:
    """The provider of the machine form of a twin: an array, a place, a number of elements, and numbers."""

    def form(emitter: Any, x: Any, at: Any, n: Any, *numbers: Any) -> Any:
        from ..front_end.machine_types import FLOAT32, Value
        from ..front_end.scalars import cast

        assert x.type.dtype == "float32", x
        b = emitter.builder
        given = [cast(b, number, FLOAT32).scalar for number in numbers]
        place, count = b.gep(x.parts[0], [emitter.word(at)]), emitter.word(n)
        return Value(FLOAT32, (b.call(kind(b.module, given).function(), [place, count, *given]),))

    return lambda: form


class _Row:
    """Generator of an LLVM function that folds a row, vector by vector: of a pointer, a number of elements, and numbers."""

    kind = ""
    #: The fold of no elements.
    start = 0.0

    def __init__(self, module: Any, numbers: list[Any]) -> None:
        from llvmlite import ir

        self.module, self.count, self.word, self.element = module, len(numbers), ir.IntType(64), ir.FloatType()
        self.lanes = min(panel_width(4), vector_bytes() // 4)
        self.vector = ir.VectorType(self.element, self.lanes)

    def step(self, b: Any, place: Any, mask: Any, folded: Any, numbers: list[Any]) -> Any:
        """The fold with the vector at ``place``, of whose lanes those in ``mask`` are elements; None: all are."""
        raise NotImplementedError

    def join(self, b: Any, one: Any, other: Any) -> Any:
        """The fold of two folds."""
        raise NotImplementedError

    def function(self) -> Any:
        """The function, defined once."""
        from llvmlite import ir

        name = f"relayvm.{self.kind}"
        if name in self.module.globals:
            return self.module.globals[name]
        kinds = [self.element.as_pointer(), self.word, *[self.element] * self.count]
        function = ir.Function(self.module, ir.FunctionType(self.element, kinds), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        function.attributes.add("optsize")  # no loop is unrolled: sums and constants of two iterations do not fit registers
        self._fill(function)
        return function

    def _fill(self, function: Any) -> None:
        """Emit the loop over whole vectors, then the last, partial vector."""
        from llvmlite import ir

        row, n, *given = function.args
        entry, loop, rest, part, end = (function.append_basic_block(name) for name in ("entry", "loop", "rest", "part", "end"))
        b = ir.IRBuilder(entry)
        numbers = [self._everywhere(b, number) for number in given]
        nothing, whole = self.number(self.start), b.and_(n, self.word(-self.lanes))
        b.cbranch(b.icmp_signed(">", whole, self.word(0)), loop, rest)
        b.position_at_end(loop)
        k, folded = b.phi(self.word), b.phi(self.vector)
        following, after = b.add(k, self.word(self.lanes)), self.step(b, self._at(b, row, k), None, folded, numbers)
        for node, first, value in ((k, self.word(0), following), (folded, nothing, after)):
            node.add_incoming(first, entry)
            node.add_incoming(value, loop)
        b.cbranch(b.icmp_signed("<", following, whole), loop, rest)
        b.position_at_end(rest)
        of_whole = self._either(b, {entry: nothing, loop: after})
        b.cbranch(b.icmp_signed("<", whole, n), part, end)
        b.position_at_end(part)
        of_all = self.step(b, self._at(b, row, whole), self._mask(b, b.sub(n, whole)), of_whole, numbers)
        b.branch(end)
        b.position_at_end(end)
        b.ret(self._over_lanes(b, self._either(b, {rest: of_whole, part: of_all})))

    def number(self, value: float) -> Any:
        """A number in every lane."""
        from llvmlite import ir

        return ir.Constant(self.vector, [value] * self.lanes)

    def _at(self, b: Any, row: Any, k: Any) -> Any:
        return b.bitcast(b.gep(row, [k]), self.vector.as_pointer())

    def _either(self, b: Any, incoming: dict[Any, Any]) -> Any:
        node = b.phi(self.vector)
        for source, value in incoming.items():
            node.add_incoming(value, source)
        return node

    def _everywhere(self, b: Any, value: Any) -> Any:
        from llvmlite import ir

        number, vector = ir.IntType(32), ir.VectorType(value.type, self.lanes)
        nothing = ir.Constant(vector, ir.Undefined)
        lanes = ir.Constant(ir.VectorType(number, self.lanes), [0] * self.lanes)
        return b.shuffle_vector(b.insert_element(nothing, value, number(0)), nothing, lanes)

    def _mask(self, b: Any, count: Any) -> Any:
        """The lanes below ``count``."""
        from llvmlite import ir

        number = ir.IntType(32)
        lanes = ir.Constant(ir.VectorType(number, self.lanes), list(range(self.lanes)))
        return b.icmp_signed("<", lanes, self._everywhere(b, b.trunc(count, number)))

    def _over_lanes(self, b: Any, vector: Any) -> Any:
        """The fold of all lanes: halves are joined until one lane is left."""
        from llvmlite import ir

        number, lanes = ir.IntType(32), self.lanes
        while lanes > 1:
            lanes //= 2
            nothing = ir.Constant(vector.type, ir.Undefined)
            halves = (ir.Constant(ir.VectorType(number, lanes), list(range(at, at + lanes))) for at in (0, lanes))
            vector = self.join(b, *(b.shuffle_vector(vector, nothing, half) for half in halves))
        return b.extract_element(vector, number(0))

    def multiply_add(self, b: Any, *values: Any) -> Any:
        """``values[0] * values[1] + values[2]`` of vectors, rounded once if the machine can."""
        from llvmlite import ir

        name = f"llvm.fmuladd.v{self.lanes}f32"
        kind = ir.FunctionType(self.vector, [self.vector] * 3)
        return b.call(self.module.globals.get(name) or ir.Function(self.module, kind, name), values)


class _Largest(_Row):
    kind, start = "largest", float("-inf")

    def step(self, b: Any, place: Any, mask: Any, folded: Any, numbers: list[Any]) -> Any:
        x = b.load(place, align=4)
        return self.join(b, folded, x if mask is None else b.select(mask, x, self.number(self.start)))

    def join(self, b: Any, one: Any, other: Any) -> Any:
        return b.select(b.fcmp_ordered(">", other, one), other, one)


class _Powers(_Row):
    kind = "powers_of_two"

    def step(self, b: Any, place: Any, mask: Any, folded: Any, numbers: list[Any]) -> Any:
        (top,) = numbers
        x = b.load(place, align=4)
        if mask is not None:  # nobody has written what is behind the row
            x = b.select(mask, x, top)
        power = self._power(b, b.fsub(x, top))
        if mask is not None:
            power = b.select(mask, power, self.number(0.0))
        b.store(power, place, align=4)
        return self.join(b, folded, power)

    def join(self, b: Any, one: Any, other: Any) -> Any:
        return b.fadd(one, other)

    def _power(self, b: Any, x: Any) -> Any:
        """``2 ** x`` for x <= 0, as a whole power times that of a fraction; NaN for NaN."""
        from llvmlite import ir

        least, shifter, bits = self.number(_LEAST_WHOLE), self.number(_SHIFTER), ir.VectorType(ir.IntType(32), self.lanes)
        x = b.select(b.fcmp_ordered("<", x, least), least, x)
        shifted = b.fadd(x, shifter)
        r = b.fsub(x, b.fsub(shifted, shifter))
        square = b.fmul(r, r)
        highest, *others = map(self.number, (*_POWERS, 1.0))
        power = highest
        for first, second in zip(others[::2], others[1::2], strict=True):  # fewer operations wait for each other than one by one
            power = self.multiply_add(b, power, square, self.multiply_add(b, first, r, second))
        whole = b.shl(b.bitcast(shifted, bits), ir.Constant(bits, [23] * self.lanes))
        return b.fmul(power, b.bitcast(whole, self.vector))


set_machine_form(largest, _form(_Largest))
set_machine_form(powers_of_two, _form(_Powers))
