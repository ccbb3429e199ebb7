"""Weighted sums of shifted rows of data without padding, in vector registers: the taps of a convolution of one channel.

As ``plane_taps``, but the operands are read where they are: masks exclude the columns outside the data, and zeros stand for the
rows outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...memory import set_machine_form, twin
from ...vector_registers import vector_bytes
from ..products.register_tile import PANEL_BYTES
from .plane_taps import TOGETHER, PlaneFunction

#: The most rows of a column of taps.
HEIGHTS = 3
#: Words of a column of taps: the row and the column of its first tap, from the first element of the data, and its weight.
COLUMN_WORDS = 3
#: The most elements of the data from one column of the result to the next.
MOST_STEP = 2
#: Bytes of the zeros that stand for a row outside the data: MOST_STEP vectors, and the elements of a window behind them.
ZERO_BYTES = (MOST_STEP + 1) * PANEL_BYTES
#: Bytes of the shortest vectors that are loaded in part by one instruction: those of AVX.
_MASKED_BYTES = 32
#: Bytes of the parts of a vector of AVX across which most instructions move no elements.
_QUARTER_BYTES = 16


@twin
def has_masks() -> bool:
    """Whether this machine reads parts of vectors as fast as whole ones."""
    return True


def _has_masks(emitter: Any) -> Any:
    from llvmlite import ir

    from ...front_end.machine_types import BOOL, Value

    return Value(BOOL, (ir.IntType(1)(int(vector_bytes() >= _MASKED_BYTES)),))


@twin
def add_data_taps(
    data: Any, at: int, height: int, width: int, row_stride: int, step: int, top: int, taps: Any, first: int, zeros: Any,
    weight: Any, w_at: int, w_step: int, w_row: int, out: Any, to: int, rows: int, columns: int,
) -> None:  # fmt: skip
    """Compute ``out[y, x] = sum of weight[w + t * w_row] * data[v + (y + t) * row_stride, u + x * step]``.

    ``y`` begins at ``top``.  The sum is over the columns of taps, in order, and over the rows ``t`` of each.  ``taps``,
    from ``first`` on: how many columns have one row, two rows, up to HEIGHTS; then ``v``, ``u`` and ``w`` of each column,
    in this order.  Data are 0 outside ``height`` rows and ``width`` columns.

    ``step`` is at most MOST_STEP; ``rows`` and ``columns`` are at least 1; ``w`` and ``w_row`` count weights, which are
    ``w_step`` elements apart; ``at``, ``w_at``: the first elements; ``to``: the first element of row ``top`` of the result, whose
    rows follow one another.  Contiguous arrays of one dtype, float32 or float64; ``taps``: int64; ``zeros`` begins with
    ZERO_BYTES of zeros.
    """
    data, weight, out = data.reshape(-1), weight.reshape(-1), out.reshape(-1)
    heights = [h + 1 for h in range(HEIGHTS) for _ in range(int(taps[int(first) + h]))]
    for y in range(int(rows)):
        for x in range(int(columns)):
            total = out.dtype.type(0)
            for column, count in enumerate(heights):
                v, u, w = (int(taps[int(first) + HEIGHTS + COLUMN_WORDS * column + k]) for k in range(COLUMN_WORDS))
                for t in range(count):
                    row, along = int(v + (top + y + t) * row_stride), int(u + x * step)
                    is_inside = 0 <= row < height and 0 <= along < width
                    operand = data[int(at + row * width + along)] if is_inside else out.dtype.type(0)
                    total += weight[int(w_at + (w + t * w_row) * w_step)] * operand
            out[int(to + y * columns + x)] = total


def _machine(
    emitter: Any, data: Any, at: Any, height: Any, width: Any, row_stride: Any, step: Any, top: Any, taps: Any, first: Any,
    zeros: Any, weight: Any, w_at: Any, w_step: Any, w_row: Any, out: Any, to: Any, rows: Any, columns: Any,
) -> None:  # fmt: skip
    assert data.type.dtype == weight.type.dtype == out.type.dtype == zeros.type.dtype, (data, weight, out, zeros)
    b, word = emitter.builder, emitter.word

    def pointer(array: Any, index: Any) -> Any:
        return b.gep(array.parts[0], [word(index)])

    arguments = [
        pointer(data, at), word(height), word(width), word(row_stride), word(top), pointer(taps, first), zeros.parts[0],
        pointer(weight, w_at), word(w_step), b.mul(word(w_row), word(w_step)), pointer(out, to), word(rows), word(columns),
    ]  # fmt: skip
    after = b.append_basic_block("end")
    of_step = b.switch(word(step), after)
    for n in range(1, MOST_STEP + 1):
        case = b.append_basic_block("step")
        of_step.add_case(emitter.word(step).type(n), case)
        b.position_at_end(case)
        b.call(_DataFunction(b.module, out.parts[0].type.pointee, n).function(), arguments)
        b.branch(after)
    b.position_at_end(after)


class _DataFunction(PlaneFunction):
    """Generator of the LLVM function for elements of one type and one ``step``."""

    heights = HEIGHTS
    row_counts = TOGETHER, 2, 1

    def __init__(self, module: Any, element: Any, step: int) -> None:
        super().__init__(module, element)
        self.step = step
        self.name = f"relayvm.data_taps.f{self.bits}.{step}"

    def again(self) -> Callable[[Any], Any]:
        """The generator of the function, for another module."""
        element, step = self.element, self.step

        def data_taps(module: Any) -> Any:
            return _DataFunction(module, element, step).function()

        return data_taps

    def kinds(self) -> list[Any]:
        """The types of pointers and words in the order of ``arguments`` in ``_machine``."""
        pointer, word = self.element.as_pointer(), self.word
        return [pointer, *[word] * 4, word.as_pointer(), pointer, pointer, word, word, pointer, word, word]

    def rows(self, function: Any) -> Any:
        """The rows of sums."""
        return function.args[11]

    def _row_block(self, b: Any, function: Any, y: Any, count: int) -> None:
        from llvmlite import ir

        out, _, columns = function.args[10:]
        before, loop, after = b.block, function.append_basic_block("x"), function.append_basic_block("x.end")
        of_out = [b.gep(out, [b.mul(columns, b.add(y, self.word(r)))]) for r in range(count)]
        row = b.mul(b.add(y, function.args[4]), function.args[3])
        b.branch(loop)
        b.position_at_end(loop)
        x = b.phi(self.word)
        x.add_incoming(self.word(0), before)
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        sums = self._taps(b, function, (row, b.mul(x, self.word(self.step))), [zero] * count)
        positions = [b.bitcast(b.gep(place, [x]), self.vector.as_pointer()) for place in of_out]
        self._store_rows(b, [self._in_order(b, total) for total in sums], positions, b.sub(columns, x))
        self._repeat(b, x, columns, ir.IntType(1)(1), after)

    def taps_of(self, function: Any) -> Any:
        """The table of taps."""
        return function.args[5]

    @property
    def column_words(self) -> int:
        """The words of a column of taps in the table."""
        return COLUMN_WORDS

    def weights_of(self, function: Any) -> tuple[Any, Any, Any]:
        """The weights, the elements from one to the next, and from one of a column of taps to the next."""
        return tuple(function.args[7:10])

    def operands(self, b: Any, function: Any, at: Any, column: Any, count: int) -> Any:
        """The vectors of ``count`` rows that a column of taps reads, in order.  ``at``: row and column of the first sums."""
        _, height, width, row_stride, _, _, zeros, *_ = function.args
        row, along, place, below = self._first_operand(b, function, at, column)
        masks = self._inside(b, along, width)
        for _ in range(count):
            here = b.select(b.icmp_unsigned("<", row, height), place, zeros)
            yield self._operand(
                b, [self._load(b, vector, mask) for vector, mask in zip(self._vectors(b, here), masks, strict=True)]
            )
            row, place = b.add(row, row_stride), b.gep(place, [below])

    def _first_operand(self, b: Any, function: Any, at: Any, column: Any) -> tuple[Any, Any, Any, Any]:
        """Row, column and place of the first operand of a column of taps, and the elements from an operand to the one below."""
        data, _, width, row_stride, *_ = function.args
        row = b.add(at[0], b.load(column))
        along = b.add(at[1], b.load(b.gep(column, [self.word(1)])))
        return row, along, b.gep(data, [b.add(b.mul(row, width), along)]), b.mul(row_stride, width)

    def _vectors(self, b: Any, place: Any) -> list[Any]:
        """The places of the vectors that have the elements of an operand."""
        return [b.bitcast(b.gep(place, [self.word(n * self.lanes)]), self.vector.as_pointer()) for n in range(self.step)]

    def _operand(self, b: Any, parts: list[Any]) -> Any:
        return parts[0] if self.step == 1 else self._alternate(b, *parts)

    def _add_rows(self, b: Any, function: Any, row: Any, column: Any, sums: list[Any], factors: list[Any]) -> list[Any]:
        """Read operands that are all inside the data without masks, on machines whose masks take instructions."""
        count = len(sums) + len(factors) - 1
        if vector_bytes() == PANEL_BYTES:
            return super()._add_rows(b, function, row, column, sums, factors)
        _, height, width, row_stride, *_ = function.args
        first, along, place, below = self._first_operand(b, function, row, column)
        last = b.add(first, b.mul(row_stride, self.word(count - 1)))
        # ``width`` and ``height`` are not negative: a comparison without sign finds what is before or behind
        ends = b.sub(width, self.word(self.step * self.lanes))
        is_inside = b.and_(b.icmp_unsigned("<", first, height), b.icmp_unsigned("<", last, height))
        is_inside = b.and_(is_inside, b.and_(b.icmp_signed(">=", along, self.word(0)), b.icmp_signed("<=", along, ends)))
        inside, beyond, after = (b.append_basic_block(name) for name in ("inside", "beyond", "added"))
        b.cbranch(is_inside, inside, beyond)
        b.position_at_end(inside)
        added = self._add_products(b, self._whole(b, place, below, count), sums, factors)
        b.branch(after)
        b.position_at_end(beyond)
        also_added = super()._add_rows(b, function, row, column, sums, factors)
        b.branch(after)
        b.position_at_end(after)
        totals = [b.phi(self.vector) for _ in sums]
        for total, value, other in zip(totals, added, also_added, strict=True):
            total.add_incoming(value, inside)
            total.add_incoming(other, beyond)
        return totals

    def _whole(self, b: Any, place: Any, below: Any, count: int) -> Iterator[Any]:
        """The vectors of ``count`` rows from ``place`` on, ``below`` elements apart."""
        for _ in range(count):
            yield self._operand(b, [b.load(vector, align=self.bits // 8) for vector in self._vectors(b, place)])
            place = b.gep(place, [below])

    def weight_place(self, column: Any, b: Any) -> Any:
        """The number of the first weight of a column of taps."""
        return b.load(b.gep(column, [self.word(2)]))

    def _inside(self, b: Any, along: Any, width: Any) -> list[Any]:
        """A mask for each vector of a row: the lanes inside the data, of which lane 0 is column ``along``."""
        from llvmlite import ir

        lanes = self.step * self.lanes

        def clamped(n: Any) -> Any:
            low = b.select(b.icmp_signed(">", n, self.word(0)), n, self.word(0))
            return b.select(b.icmp_signed("<", low, self.word(lanes)), low, self.word(lanes))

        first, end = clamped(b.neg(along)), clamped(b.sub(width, along))
        if vector_bytes() != PANEL_BYTES:
            return [self._between(b, first, end, n * self.lanes) for n in range(self.step)]
        one = self.word(1)
        bits = b.sub(b.shl(one, end), b.shl(one, first))
        return [
            b.bitcast(b.trunc(b.lshr(bits, self.word(n * self.lanes)), ir.IntType(self.lanes)), self.mask_type)
            for n in range(self.step)
        ]

    def _between(self, b: Any, first: Any, end: Any, begin: int) -> Any:
        """The lanes from ``first`` to ``end`` (exclusive), where the number of lane 0 is ``begin``."""
        from llvmlite import ir

        number = ir.IntType(32)
        lanes = ir.Constant(ir.VectorType(number, self.lanes), list(range(begin, begin + self.lanes)))
        low, high = (self._splat(b, b.trunc(n, number)) for n in (first, end))
        return b.and_(b.icmp_signed(">=", lanes, low), b.icmp_signed("<", lanes, high))

    def _alternate(self, b: Any, first: Any, second: Any) -> Any:
        """Every second element of two vectors, in the order of ``_order``."""
        return self._shuffled(b, first, second, [2 * n for n in self._order])

    def _in_order(self, b: Any, vector: Any) -> Any:
        """The lanes of sums in the order of their columns."""
        if self.step == 1:
            return vector
        return self._shuffled(b, vector, vector, [self._order.index(n) for n in range(self.lanes)])

    @property
    def _order(self) -> list[int]:
        """The column of each lane.  With AVX, an instruction takes elements of the same quarter (16 bytes) of two vectors."""
        if vector_bytes() == PANEL_BYTES:
            return list(range(self.lanes))
        some = _QUARTER_BYTES // (self.bits // 8)
        half = self.lanes // 2
        return [begin + n + i for n in range(0, half, some // 2) for begin in (0, half) for i in range(some // 2)]

    def _shuffled(self, b: Any, first: Any, second: Any, lanes: list[int]) -> Any:
        from llvmlite import ir

        return b.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), lanes))


set_machine_form(has_masks, lambda: _has_masks)
set_machine_form(add_data_taps, lambda: _machine)
