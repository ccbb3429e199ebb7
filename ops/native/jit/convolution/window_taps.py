"""Weighted sums over windows of 3 x 3 of data without padding, in vector registers: each row of the data is read once.

Sums advance down a strip of columns, as wide as a vector.  A row of the data adds to the sums of all windows that have this row:
registers hold the row, the nine weights and a few vectors of sums.  ``data_taps`` has windows of any size: rows of the data are
read again for each column of a window, and places and masks are computed again for each of these columns.

An element of the result is the sum of its window's rows, from the first on; a row is one sum along it.  One sum of all nine
products would wait for each of them: a processor begins so few windows meanwhile that windows take longer.
"""

from __future__ import annotations

import math
from typing import Any

from ...code_parts import is_declared_only
from ...memory import set_machine_form, twin
from ...vector_registers import registers_name, vector_bytes
from ..products.register_tile import PANEL_BYTES
from .data_taps import MOST_STEP

#: Rows and columns of a window.
WINDOW = 3


@twin
def add_windows(
    data: Any, at: int, height: int, width: int, step: int, first_row: int, first_column: int, zeros: Any, weight: Any, w_at: int,
    w_step: int, out: Any, to: int, rows: int, columns: int, ahead: int, out_ahead: int, addend: float, low: float, high: float,
) -> None:  # fmt: skip
    """Compute ``out[y, x] = sum of weight[t, u] * data[first_row + y * step + t, first_column + x * step + u]``.

    ``t`` and ``u`` below WINDOW, ``step`` 1 to MOST_STEP.  Data are 0 outside ``height`` rows and ``width`` columns.  ``rows``
    and ``columns`` are at least 1; rows of the result follow one another.  Weights are ``w_step`` elements apart; ``at``,
    ``w_at``, ``to``: the first elements.  Contiguous arrays of one dtype, float32 or float64; ``zeros`` begins with
    ``data_taps.ZERO_BYTES`` of zeros.

    ``addend`` is added to each sum, which is then limited to ``low`` and ``high``; a sum that is NaN stays NaN.  An addend of
    -0.0 and infinite bounds leave sums as they are.

    Meanwhile fetch the data ``ahead`` elements on, and the results ``out_ahead`` elements on.
    """
    data, weight, out = data.reshape(-1), weight.reshape(-1), out.reshape(-1)
    for y in range(int(rows)):
        for x in range(int(columns)):
            total = out.dtype.type(0)
            for t in range(WINDOW):
                for u in range(WINDOW):
                    row, along = int(first_row + y * step + t), int(first_column + x * step + u)
                    is_inside = 0 <= row < height and 0 <= along < width
                    operand = data[int(at + row * width + along)] if is_inside else out.dtype.type(0)
                    total += weight[int(w_at + (t * WINDOW + u) * w_step)] * operand
            total += out.dtype.type(addend)
            if not math.isnan(total):
                total = min(max(total, out.dtype.type(low)), out.dtype.type(high))
            out[int(to + y * columns + x)] = total


def _machine(
    emitter: Any, data: Any, at: Any, height: Any, width: Any, step: Any, first_row: Any, first_column: Any, zeros: Any,
    weight: Any, w_at: Any, w_step: Any, out: Any, to: Any, rows: Any, columns: Any, ahead: Any, out_ahead: Any, addend: Any,
    low: Any, high: Any,
) -> None:  # fmt: skip
    from ...front_end.machine_types import scalar_type
    from ...front_end.scalars import cast

    assert data.type.dtype == weight.type.dtype == out.type.dtype == zeros.type.dtype, (data, weight, out, zeros)
    b, word = emitter.builder, emitter.word

    def pointer(array: Any, index: Any) -> Any:
        return b.gep(array.parts[0], [word(index)])

    arguments = [
        pointer(data, at), word(height), word(width), word(first_row), word(first_column), zeros.parts[0], pointer(weight, w_at),
        word(w_step), pointer(out, to), word(rows), word(columns), word(ahead), word(out_ahead),
        *(cast(b, number, scalar_type(out.type.dtype)).scalar for number in (addend, low, high)),
    ]  # fmt: skip
    after = b.append_basic_block("end")
    of_step = b.switch(word(step), after)
    for n in range(1, MOST_STEP + 1):
        case = b.append_basic_block("step")
        of_step.add_case(emitter.word(step).type(n), case)
        b.position_at_end(case)
        b.call(_WindowFunction(b.module, out.parts[0].type.pointee, n).function(), arguments)
        b.branch(after)
    b.position_at_end(after)


class _WindowFunction:
    """Generator of the LLVM function for elements of one type and one ``step``."""

    def __init__(self, module: Any, element: Any, step: int) -> None:
        from llvmlite import ir

        self.module, self.element, self.word, self.step = module, element, ir.IntType(64), step
        self.bits = 64 if element == ir.DoubleType() else 32
        self.lanes = min(PANEL_BYTES, vector_bytes()) // (self.bits // 8)
        self.vector = ir.VectorType(element, self.lanes)
        self.name = f"relayvm.window_taps.f{self.bits}.{step}"

    def function(self) -> Any:
        """The function: pointers and words in the order of ``arguments`` in ``_machine``."""
        from llvmlite import ir

        if self.name in self.module.globals:
            return self.module.globals[self.name]
        pointer, word = self.element.as_pointer(), self.word
        kinds = [pointer, *[word] * 4, pointer, pointer, word, pointer, *[word] * 4, *[self.element] * 3]
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), kinds), self.name)
        element, step = self.element, self.step

        def again(module: Any) -> Any:
            return _WindowFunction(module, element, step).function()

        if is_declared_only(function, f"{self.name} {registers_name()}", again):
            return function
        function.linkage = "internal"
        for attribute in ("noinline", "optsize"):  # no loop is unrolled
            function.attributes.add(attribute)
        self._fill(function)
        return function

    def _fill(self, function: Any) -> None:
        """Emit the loop over strips.  The last one ends with the row: elements that are computed twice have the same bits."""
        from llvmlite import ir

        data, height, width, first_row, first_column, zeros, weight, w_step, out, rows, columns, *others = function.args
        ahead, out_ahead, *limits = others
        b = ir.IRBuilder(function.append_basic_block("entry"))
        positions = [b.gep(weight, [b.mul(w_step, self.word(n))]) for n in range(WINDOW * WINDOW)]
        factors = [self._splat(b, b.load(place)) for place in positions]
        self._addend, self._low, self._high = (self._splat(b, number) for number in limits)
        row = b.gep(data, [b.mul(first_row, width)])
        self._operands = (height, width, first_row, zeros, rows, columns, ahead, out_ahead, factors)
        entry, loop, end = b.block, b.append_basic_block("strip"), b.append_basic_block("end")
        b.branch(loop)
        b.position_at_end(loop)
        x = b.phi(self.word)
        x.add_incoming(self.word(0), entry)
        along = b.add(first_column, b.mul(x, self.word(self.step)))
        ends = b.sub(width, self.word(self._read))
        is_inside = b.and_(b.icmp_signed(">=", along, self.word(0)), b.icmp_signed("<=", along, ends))
        inside, beyond, after = (b.append_basic_block(name) for name in ("inside", "beyond", "after"))
        b.cbranch(is_inside, inside, beyond)
        for block, masks in ((inside, lambda: [None] * len(self._offsets)), (beyond, lambda: self._masks(b, along, width))):
            b.position_at_end(block)
            self._strip(b, b.gep(row, [along]), b.gep(out, [x]), x, masks())
            b.branch(after)
        b.position_at_end(after)
        following, last = b.add(x, self.word(self.lanes)), b.sub(columns, self.word(self.lanes))
        may_move = b.and_(b.icmp_signed(">=", last, self.word(0)), b.icmp_signed("<", last, following))
        x.add_incoming(b.select(may_move, last, following), b.block)
        b.cbranch(b.icmp_signed("<", following, columns), loop, end)
        b.position_at_end(end)
        b.ret_void()

    def _strip(self, b: Any, place: Any, to: Any, x: Any, masks: list[Any]) -> None:
        """Emit the loop down a strip: the first row of its first window begins at ``place``."""
        height, width, first_row, zeros, rows, columns, ahead, out_ahead, factors = self._operands
        weights = [factors[t * WINDOW : (t + 1) * WINDOW] for t in range(WINDOW)]

        def advanced(t: int, number: Any, pointer: Any, held: list[Any]) -> list[Any]:
            """The sums after row ``t`` of the first window, and those of the window that begins there."""
            self._fetch(b, b.gep(pointer, [ahead]), 0)
            here = b.select(b.icmp_unsigned("<", number, height), pointer, zeros)
            operands = self._row(b, here, masks)
            sums = [b.fadd(total, self._row_sum(b, operands, weights[t - n * self.step])) for n, total in enumerate(held)]
            return sums if t % self.step else [*sums, self._row_sum(b, operands, weights[0])]

        held: list[Any] = []
        number = first_row
        for t in range(WINDOW - self.step):
            held = advanced(t, number, place, held)
            number, place = b.add(number, self.word(1)), b.gep(place, [width])
        before, loop, after = b.block, b.append_basic_block("row"), b.append_basic_block("rows.end")
        b.branch(loop)
        b.position_at_end(loop)
        nodes = [b.phi(value.type) for value in (self.word(0), number, place, to, *held)]
        for node, value in zip(nodes, (self.word(0), number, place, to, *held), strict=True):
            node.add_incoming(value, before)
        y, number, place, to, *held = nodes
        for t in range(WINDOW - self.step, WINDOW):
            held = advanced(t, number, place, held)
            number, place = b.add(number, self.word(1)), b.gep(place, [width])
        self._fetch(b, b.gep(to, [out_ahead]), 1)
        left = b.sub(b.mul(b.sub(rows, y), columns), x)
        self._store(b, self._limited(b, held[0]), to, left, columns)
        following = b.add(y, self.word(1))
        for node, value in zip(nodes, (following, number, place, b.gep(to, [columns]), *held[1:]), strict=True):
            node.add_incoming(value, b.block)
        b.cbranch(b.icmp_signed("<", following, rows), loop, after)
        b.position_at_end(after)

    def _row_sum(self, b: Any, operands: list[Any], weights: list[Any]) -> Any:
        """The products of a row of windows, added along it."""
        fma = self._declared(f"llvm.fma.v{self.lanes}f{self.bits}", self.vector, [self.vector] * 3)
        total = b.fmul(weights[0], operands[0])
        for operand, weight in zip(operands[1:], weights[1:], strict=True):
            total = b.call(fma, [weight, operand, total])
        return total

    def _limited(self, b: Any, total: Any) -> Any:
        """Complete sums with the addend, within the bounds."""
        total = b.fadd(total, self._addend)
        for bound, beyond in ((self._low, "<"), (self._high, ">")):
            total = b.select(b.fcmp_ordered(beyond, total, bound), bound, total)  # false for NaN
        return total

    @property
    def _offsets(self) -> list[int]:
        """The first elements of the vectors that are loaded of a row."""
        return [0, 1, 2] if self.step == 1 else [0, self.lanes, 2, 2 + self.lanes]

    @property
    def _read(self) -> int:
        """The number of elements of a row that are loaded."""
        return self._offsets[-1] + self.lanes

    def _row(self, b: Any, place: Any, masks: list[Any]) -> list[Any]:
        """The operands of a row for each column of the window."""
        loaded = [self._load(b, b.gep(place, [self.word(n)]), mask) for n, mask in zip(self._offsets, masks, strict=True)]
        if self.step == 1:
            return loaded
        first, second, third, fourth = loaded
        return [self._alternate(b, first, second, 0), self._alternate(b, first, second, 1), self._alternate(b, third, fourth, 0)]

    @property
    def _order(self) -> list[int]:
        """The column of each lane: an instruction takes elements of the same half of two vectors."""
        if self.step == 1 or self.lanes < len(self._offsets):
            return list(range(self.lanes))
        some = self.lanes // 4
        return [begin + n for half in (0, 1) for begin in (half * some, 2 * some + half * some) for n in range(some)]

    def _alternate(self, b: Any, first: Any, second: Any, parity: int) -> Any:
        """Every second element of two vectors, in the order of ``_order``."""
        return self._shuffled(b, first, second, [2 * n + parity for n in self._order])

    def _shuffled(self, b: Any, first: Any, second: Any, lanes: list[int]) -> Any:
        from llvmlite import ir

        return b.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), lanes))

    def _masks(self, b: Any, along: Any, width: Any) -> list[Any]:
        """For each vector that is loaded of a row, the lanes inside the data; ``along``: the column of the first element."""
        from llvmlite import ir

        number = ir.IntType(32)
        lanes = ir.Constant(ir.VectorType(number, self.lanes), list(range(self.lanes)))

        def clamped(n: Any) -> Any:
            low = b.select(b.icmp_signed(">", n, self.word(0)), n, self.word(0))
            return b.trunc(b.select(b.icmp_signed("<", low, self.word(self.lanes)), low, self.word(self.lanes)), number)

        def inside(offset: int) -> Any:
            begin = b.add(along, self.word(offset))
            first, end = (self._splat(b, clamped(n)) for n in (b.neg(begin), b.sub(width, begin)))
            return b.and_(b.icmp_signed(">=", lanes, first), b.icmp_signed("<", lanes, end))

        return [inside(offset) for offset in self._offsets]

    def _store(self, b: Any, total: Any, to: Any, left: Any, columns: Any) -> None:
        """Store a vector of results: ``left`` elements from its first are written at all, in order.

        Lanes behind a row that is shorter than a vector are overwritten by the rows that follow.
        """
        if self.step > 1:
            total = self._shuffled(b, total, total, [self._order.index(n) for n in range(self.lanes)])
        place = b.bitcast(to, self.vector.as_pointer())
        whole, part, after = (b.append_basic_block(name) for name in ("whole", "part", "stored"))
        b.cbranch(b.icmp_signed(">=", left, self.word(self.lanes)), whole, part)
        b.position_at_end(whole)
        b.store(total, place, align=self.bits // 8)
        b.branch(after)
        b.position_at_end(part)
        self._store_part(b, total, place, left)
        b.branch(after)
        b.position_at_end(after)

    def _store_part(self, b: Any, total: Any, place: Any, count: Any) -> None:
        from llvmlite import ir

        number = ir.IntType(32)
        lanes = ir.Constant(ir.VectorType(self.word, self.lanes), list(range(self.lanes)))
        mask = b.icmp_signed("<", lanes, self._splat(b, count))
        kinds = [self.vector, place.type, number, mask.type]
        store = self._declared(f"llvm.masked.store.v{self.lanes}f{self.bits}.p0", ir.VoidType(), kinds)
        b.call(store, [total, place, number(self.bits // 8), mask])

    def _load(self, b: Any, place: Any, mask: Any) -> Any:
        """The elements of the mask, else 0; all elements without a mask."""
        from llvmlite import ir

        number, place = ir.IntType(32), b.bitcast(place, self.vector.as_pointer())
        if mask is None:
            return b.load(place, align=self.bits // 8)
        load = self._declared(
            f"llvm.masked.load.v{self.lanes}f{self.bits}.p0", self.vector, [place.type, number, mask.type, self.vector]
        )
        return b.call(load, [place, number(self.bits // 8), mask, ir.Constant(self.vector, [0.0] * self.lanes)])

    def _fetch(self, b: Any, place: Any, write: int) -> None:
        from llvmlite import ir

        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        fetch = self._declared("llvm.prefetch.p0", ir.VoidType(), [byte, flag, flag, flag])
        b.call(fetch, [b.bitcast(place, byte), flag(write), flag(3), flag(1)])

    def _splat(self, b: Any, value: Any) -> Any:
        from llvmlite import ir

        nothing, number = ir.Constant(ir.VectorType(value.type, self.lanes), ir.Undefined), ir.IntType(32)
        lanes = ir.Constant(ir.VectorType(number, self.lanes), [0] * self.lanes)
        return b.shuffle_vector(b.insert_element(nothing, value, number(0)), nothing, lanes)

    def _declared(self, name: str, result: Any, arguments: list[Any]) -> Any:
        from llvmlite import ir

        return self.module.globals.get(name) or ir.Function(self.module, ir.FunctionType(result, arguments), name)


set_machine_form(add_windows, lambda: _machine)
