"""Weighted sums of shifted rows of a plane, in vector registers: the taps of a convolution of one channel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ...code_parts import is_declared_only
from ...memory import set_machine_form, twin
from ...vector_registers import registers_name, vector_bytes
from ..products.register_tile import PANEL_BYTES, panel_width

#: Rows of sums that are computed together, the most first: an addition waits for the one before it in its row.  Most planes of
#: networks have a multiple of 7 rows.
_ROWS = (7, 4, 2, 1)
#: The most rows of sums that are computed together.
TOGETHER = _ROWS[0]
#: The most rows of a column of taps.  Rows of sums that are computed together share the operands of a column's rows.
HEIGHTS = 5


def read_ahead(itemsize: int) -> int:
    """The number of elements behind the last operand that ``add_taps`` may read."""
    return panel_width(itemsize) - 1


@twin
def add_taps(
    plane: Any, at: int, row_step: int, taps: Any, first: int, weight: Any, w_at: int, w_step: int, w_row: int, out: Any,
    to: int, out_row: int, rows: int, columns: int, add: int,
) -> None:  # fmt: skip
    """Compute ``out[y, x] = sum of weight[w + t * w_row] * plane[y + t, x + start]``; add it to ``out`` if ``add`` is not 0.

    The sum is over the columns of taps, in order, and over the rows ``t`` of each.  ``taps``, from ``first`` on: how many columns
    have one row, two rows, up to HEIGHTS; then ``start`` and ``w`` of each column, in this order.

    ``y`` below ``rows``, ``x`` below ``columns``, at least one each.  Rows of the plane are ``row_step`` elements apart, those of
    ``out`` ``out_row``; ``w`` and ``w_row`` count weights, which are ``w_step`` elements apart; ``at``, ``w_at``, ``to``: the
    first elements.  Contiguous arrays of one dtype, float32 or float64; ``taps``: int64.  ``read_ahead`` elements behind the
    operands are read, too.
    """
    plane, weight, out = plane.reshape(-1), weight.reshape(-1), out.reshape(-1)
    heights = [h + 1 for h in range(HEIGHTS) for _ in range(int(taps[int(first) + h]))]
    for y in range(int(rows)):
        for x in range(int(columns)):
            total = out[int(to + y * out_row + x)] if add else out.dtype.type(0)
            for column, height in enumerate(heights):
                start, w = (int(taps[int(first) + HEIGHTS + 2 * column + k]) for k in range(2))
                for t in range(height):
                    factor = weight[int(w_at + (w + t * w_row) * w_step)]
                    total += factor * plane[int(at + start + (y + t) * row_step + x)]
            out[int(to + y * out_row + x)] = total


def _machine(
    emitter: Any, plane: Any, at: Any, row_step: Any, taps: Any, first: Any, weight: Any, w_at: Any, w_step: Any, w_row: Any,
    out: Any, to: Any, out_row: Any, rows: Any, columns: Any, add: Any,
) -> None:  # fmt: skip
    assert plane.type.dtype == weight.type.dtype == out.type.dtype, (plane, weight, out)
    b, word = emitter.builder, emitter.word

    def pointer(array: Any, index: Any) -> Any:
        return b.gep(array.parts[0], [word(index)])

    function = PlaneFunction(b.module, out.parts[0].type.pointee).function()
    b.call(function, [
        pointer(plane, at), word(row_step), pointer(taps, first), pointer(weight, w_at), word(w_step),
        b.mul(word(w_row), word(w_step)), pointer(out, to), word(out_row), word(rows), word(columns), word(add),
    ])  # fmt: skip


class PlaneFunction:
    """Generator of the LLVM function for elements of one type."""

    #: The most rows of a column of taps, and the rows of sums that are computed together.
    heights: int = HEIGHTS
    row_counts: tuple[int, ...] = _ROWS

    def __init__(self, module: Any, element: Any) -> None:
        from llvmlite import ir

        self.module, self.element, self.word = module, element, ir.IntType(64)
        self.bits = 64 if element == ir.DoubleType() else 32
        self.lanes = min(PANEL_BYTES, vector_bytes()) // (self.bits // 8)
        self.vector = ir.VectorType(element, self.lanes)
        self.mask_type = ir.VectorType(ir.IntType(1), self.lanes)
        self.name = f"relayvm.plane_taps.f{self.bits}"

    def function(self) -> Any:
        """The function: pointers and words in the order of ``add_taps``; ``w_row`` counts elements."""
        from llvmlite import ir

        if self.name in self.module.globals:
            return self.module.globals[self.name]
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), self.kinds()), self.name)
        if is_declared_only(function, f"{self.name} {registers_name()}", self.again()):
            return function
        function.linkage = "internal"
        function.attributes.add("noinline")
        self._fill(function)
        return function

    def again(self) -> Callable[[Any], Any]:
        """The generator of the function, for another module."""
        element = self.element

        def plane_taps(module: Any) -> Any:
            return PlaneFunction(module, element).function()

        return plane_taps

    def kinds(self) -> list[Any]:
        """The types of the arguments."""
        pointer, word = self.element.as_pointer(), self.word
        return [pointer, word, word.as_pointer(), pointer, word, word, pointer, *[word] * 4]

    def rows(self, function: Any) -> Any:
        """The rows of sums."""
        return function.args[8]

    def taps_of(self, function: Any) -> Any:
        """The table of taps."""
        return function.args[2]

    @property
    def column_words(self) -> int:
        """The words of a column of taps in the table."""
        return 2

    def weights_of(self, function: Any) -> tuple[Any, Any, Any]:
        """The weights, the elements from one to the next, and from one of a column of taps to the next."""
        return tuple(function.args[3:6])

    def weight_place(self, column: Any, b: Any) -> Any:
        """The number of the first weight of a column of taps."""
        return b.load(b.gep(column, [self.word(1)]))

    def operands(self, b: Any, function: Any, at: Any, column: Any, count: int) -> Iterator[Any]:
        """The vectors of ``count`` rows that a column of taps reads, in order.  ``at``: the row of the first sums."""
        operand = b.gep(at, [b.load(column)])
        for _ in range(count):
            yield b.load(b.bitcast(operand, self.vector.as_pointer()), align=self.bits // 8)
            operand = b.gep(operand, [function.args[1]])

    def _fill(self, function: Any) -> None:
        from llvmlite import ir

        rows = self.rows(function)
        block = function.append_basic_block("entry")
        y, b = self.word(0), ir.IRBuilder(block)
        for count in self.row_counts:
            head, body, after = (function.append_basic_block(name) for name in ("head", "body", "after"))
            b.branch(head)
            entered = b.block
            b.position_at_end(head)
            here = b.phi(self.word)
            here.add_incoming(y, entered)
            b.cbranch(b.icmp_signed(">=", b.sub(rows, here), self.word(count)), body, after)
            b.position_at_end(body)
            self._row_block(b, function, here, count)
            here.add_incoming(b.add(here, self.word(count)), b.block)
            b.branch(head)
            b.position_at_end(after)
            y = here
        b.ret_void()

    def _row_block(self, b: Any, function: Any, y: Any, count: int) -> None:
        """Emit the loop over the columns of ``count`` rows from ``y`` on."""
        plane, row_step, _, _, _, _, out, out_row, _, columns, add = function.args
        is_new = b.icmp_signed("==", add, self.word(0))
        before, loop, after = b.block, function.append_basic_block("x"), function.append_basic_block("x.end")
        from_plane = b.gep(plane, [b.mul(y, row_step)])
        of_out = [b.gep(out, [b.mul(out_row, b.add(y, self.word(r)))]) for r in range(count)]
        b.branch(loop)
        b.position_at_end(loop)
        x = b.phi(self.word)
        x.add_incoming(self.word(0), before)
        adds = self._mask(b, b.select(is_new, self.word(0), b.sub(columns, x)))
        positions = [b.bitcast(b.gep(row, [x]), self.vector.as_pointer()) for row in of_out]
        sums = self._taps(b, function, b.gep(from_plane, [x]), [self._load(b, p, adds) for p in positions])
        self._store_rows(b, sums, positions, b.sub(columns, x))
        self._repeat(b, x, columns, is_new, after)

    def _store_rows(self, b: Any, sums: list[Any], positions: list[Any], count: Any) -> None:
        """Store the first ``count`` lanes of each sum."""
        whole, part, after = (b.append_basic_block(name) for name in ("whole", "part", "stored"))
        if vector_bytes() == PANEL_BYTES:  # masked stores are as fast as others
            b.branch(part)
        else:
            b.cbranch(b.icmp_signed(">=", count, self.word(self.lanes)), whole, part)
        b.position_at_end(whole)
        for place, total in zip(positions, sums, strict=True):
            b.store(total, place, align=self.bits // 8)
        b.branch(after)
        b.position_at_end(part)
        mask = self._mask(b, count)
        for place, total in zip(positions, sums, strict=True):
            self._store(b, total, place, mask)
        b.branch(after)
        b.position_at_end(after)

    def _repeat(self, b: Any, x: Any, columns: Any, is_new: Any, after: Any) -> None:
        """Emit the end of the loop over ``x``, which begins with its block.

        Where parts of vectors are slow to store, the last vector of a row ends with the row: elements that are computed twice
        have the same bits, if they are ``is_new`` and nothing is added to them.
        """
        following = b.add(x, self.word(self.lanes))
        start = following
        if vector_bytes() != PANEL_BYTES:
            last = b.sub(columns, self.word(self.lanes))
            may_move = b.and_(is_new, b.icmp_signed(">=", last, self.word(0)))
            start = b.select(b.and_(may_move, b.icmp_signed("<", last, following)), last, following)
        x.add_incoming(start, b.block)
        b.cbranch(b.icmp_signed("<", following, columns), x.parent, after)
        b.position_at_end(after)

    def _taps(self, b: Any, function: Any, row: Any, sums: list[Any]) -> list[Any]:
        """Emit the loops over the columns of taps, a loop for each height; the sums after them.  ``row``: of the first sums."""
        taps = self.taps_of(function)
        column = b.gep(taps, [self.word(self.heights)])
        for height in range(1, self.heights + 1):
            after = b.gep(column, [b.mul(b.load(b.gep(taps, [self.word(height - 1)])), self.word(self.column_words))])
            sums = self._columns(b, function, height, row, sums, column, after)
            column = after
        return sums

    def _columns(self, b: Any, function: Any, height: int, row: Any, first: list[Any], column: Any, last: Any) -> list[Any]:
        """Emit the loop over the columns of one height, from ``column`` to ``last`` (exclusive); the sums after it."""
        weight, w_step, w_row = self.weights_of(function)
        before, loop, end = b.block, function.append_basic_block("columns"), function.append_basic_block("columns.end")
        b.cbranch(b.icmp_unsigned("!=", column, last), loop, end)
        b.position_at_end(loop)
        here, sums = b.phi(column.type), [b.phi(self.vector) for _ in first]
        here.add_incoming(column, before)
        place = b.gep(weight, [b.mul(self.weight_place(here, b), w_step)])
        factors = []
        for _ in range(height):
            factors.append(self._splat(b, b.load(place)))
            place = b.gep(place, [w_row])
        added = self._add_rows(b, function, row, here, sums, factors)
        following = b.gep(here, [self.word(self.column_words)])
        for total, value, result in zip(sums, first, added, strict=True):
            total.add_incoming(value, before)
            total.add_incoming(result, b.block)
        here.add_incoming(following, b.block)
        b.cbranch(b.icmp_unsigned("!=", following, last), loop, end)
        after = b.block
        b.position_at_end(end)
        totals = [b.phi(self.vector) for _ in first]
        for total, value, result in zip(totals, first, added, strict=True):
            total.add_incoming(value, before)
            total.add_incoming(result, after)
        return totals

    def _add_rows(self, b: Any, function: Any, row: Any, column: Any, sums: list[Any], factors: list[Any]) -> list[Any]:
        """Emit the products of the operands of a column of taps, whose weights are ``factors``; the sums after them."""
        return self._add_products(b, self.operands(b, function, row, column, len(sums) + len(factors) - 1), sums, factors)

    def _add_products(self, b: Any, operands: Iterable[Any], sums: list[Any], factors: list[Any]) -> list[Any]:
        """Add to each sum the operands from its row on, in order, times the factors."""
        added = list(sums)
        fma = self._declared(f"llvm.fma.v{self.lanes}f{self.bits}", self.vector, [self.vector] * 3)
        for y, vector in enumerate(operands):
            for t, factor in enumerate(factors):
                if 0 <= y - t < len(sums):
                    added[y - t] = b.call(fma, [factor, vector, added[y - t]])
        return added

    def _splat(self, b: Any, value: Any) -> Any:
        from llvmlite import ir

        nothing, number = ir.Constant(ir.VectorType(value.type, self.lanes), ir.Undefined), ir.IntType(32)
        lanes = ir.Constant(ir.VectorType(number, self.lanes), [0] * self.lanes)
        return b.shuffle_vector(b.insert_element(nothing, value, number(0)), nothing, lanes)

    def _mask(self, b: Any, count: Any) -> Any:
        """The lanes below ``count``."""
        from llvmlite import ir

        numbers = ir.Constant(ir.VectorType(self.word, self.lanes), list(range(self.lanes)))
        return b.icmp_signed("<", numbers, self._splat(b, count))

    def _load(self, b: Any, place: Any, mask: Any) -> Any:
        """The elements of the mask, else 0."""
        from llvmlite import ir

        number = ir.IntType(32)
        load = self._declared(self._masked("load"), self.vector, [place.type, number, self.mask_type, self.vector])
        return b.call(load, [place, number(self.bits // 8), mask, ir.Constant(self.vector, [0.0] * self.lanes)])

    def _store(self, b: Any, value: Any, place: Any, mask: Any) -> None:
        from llvmlite import ir

        number = ir.IntType(32)
        store = self._declared(self._masked("store"), ir.VoidType(), [self.vector, place.type, number, self.mask_type])
        b.call(store, [value, place, number(self.bits // 8), mask])

    def _masked(self, what: str) -> str:
        return f"llvm.masked.{what}.v{self.lanes}f{self.bits}.p0"

    def _declared(self, name: str, result: Any, arguments: list[Any]) -> Any:
        from llvmlite import ir

        return self.module.globals.get(name) or ir.Function(self.module, ir.FunctionType(result, arguments), name)


set_machine_form(add_taps, lambda: _machine)
