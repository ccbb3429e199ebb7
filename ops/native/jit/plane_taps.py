"""Weighted sums of shifted rows of a plane, in vector registers: the taps of a convolution of one channel."""

from __future__ import annotations

from typing import Any

from ..memory import set_machine_form, twin
from .product_tile import panel_width

#: Rows of sums that are computed together, the most first: an addition waits for the one before it in its row.  Most planes of
#: networks have a multiple of 7 rows.
_ROWS = (7, 4, 2, 1)
#: The most rows of sums that are computed together.
TOGETHER = _ROWS[0]


def read_ahead(itemsize: int) -> int:
    """The number of elements behind the last operand that ``add_taps`` may read."""
    return panel_width(itemsize) - 1


@twin
def add_taps(
    plane: Any, at: int, row_step: int, starts: Any, first: int, taps: int, weight: Any, w_at: int, w_step: int, out: Any,
    to: int, out_row: int, rows: int, columns: int, add: int,
) -> None:  # fmt: skip
    """Compute ``out[y, x] = sum of weight[t] * plane[y, x + starts[t]]``; add it to ``out[y, x]`` if ``add`` is not 0.

    ``y`` below ``rows``, ``x`` below ``columns``, ``t`` below ``taps``, at least one each, in order.  Rows of the plane are
    ``row_step`` elements apart, those of ``out`` ``out_row``, the weights ``w_step``; ``at``, ``first``, ``w_at``, ``to``: the
    first elements.  Contiguous arrays of one dtype, float32 or float64; ``starts``: int64.  ``read_ahead`` elements behind the
    operands are read, too.
    """
    plane, weight, out = plane.reshape(-1), weight.reshape(-1), out.reshape(-1)
    for y in range(int(rows)):
        for x in range(int(columns)):
            total = out[int(to + y * out_row + x)] if add else out.dtype.type(0)
            for t in range(int(taps)):
                total += weight[int(w_at + t * w_step)] * plane[int(at + starts[int(first) + t] + y * row_step + x)]
            out[int(to + y * out_row + x)] = total


def _machine(
    emitter: Any, plane: Any, at: Any, row_step: Any, starts: Any, first: Any, taps: Any, weight: Any, w_at: Any, w_step: Any,
    out: Any, to: Any, out_row: Any, rows: Any, columns: Any, add: Any,
) -> None:  # fmt: skip
    assert plane.type.dtype == weight.type.dtype == out.type.dtype, (plane, weight, out)
    b, word = emitter.builder, emitter.word

    def pointer(array: Any, index: Any) -> Any:
        return b.gep(array.parts[0], [word(index)])

    function = _PlaneFunction(b.module, out.parts[0].type.pointee).function()
    b.call(function, [
        pointer(plane, at), word(row_step), pointer(starts, first), word(taps), pointer(weight, w_at), word(w_step),
        pointer(out, to), word(out_row), word(rows), word(columns), word(add),
    ])  # fmt: skip


class _PlaneFunction:
    """Generator of the LLVM function for elements of one type."""

    def __init__(self, module: Any, element: Any) -> None:
        from llvmlite import ir

        self.module, self.element, self.word = module, element, ir.IntType(64)
        self.bits = 64 if element == ir.DoubleType() else 32
        self.lanes = panel_width(self.bits // 8)
        self.vector = ir.VectorType(element, self.lanes)
        self.mask_type = ir.VectorType(ir.IntType(1), self.lanes)
        self.name = f"relayvm.plane_taps.f{self.bits}"

    def function(self) -> Any:
        """The function: pointers and words in the order of ``add_taps``."""
        from llvmlite import ir

        if self.name in self.module.globals:
            return self.module.globals[self.name]
        pointer, word = self.element.as_pointer(), self.word
        kinds = [pointer, word, word.as_pointer(), word, pointer, word, pointer, *[word] * 4]
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), kinds), self.name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        self._fill(function)
        return function

    def _fill(self, function: Any) -> None:
        from llvmlite import ir

        rows = function.args[8]
        block = function.append_basic_block("entry")
        y, b = self.word(0), ir.IRBuilder(block)
        for count in _ROWS:
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
        before, loop, after = b.block, function.append_basic_block("columns"), function.append_basic_block("columns.end")
        from_plane = b.gep(plane, [b.mul(y, row_step)])
        of_plane = [b.gep(from_plane, [b.mul(row_step, self.word(r))]) for r in range(count)]
        of_out = [b.gep(out, [b.mul(out_row, b.add(y, self.word(r)))]) for r in range(count)]
        b.branch(loop)
        b.position_at_end(loop)
        x = b.phi(self.word)
        x.add_incoming(self.word(0), before)
        mask = self._mask(b, b.sub(columns, x))
        adds = self._mask(b, b.select(b.icmp_signed("!=", add, self.word(0)), b.sub(columns, x), self.word(0)))
        places = [b.bitcast(b.gep(row, [x]), self.vector.as_pointer()) for row in of_out]
        sums = self._taps(b, function, [b.gep(row, [x]) for row in of_plane], [self._load(b, p, adds) for p in places])
        for place, total in zip(places, sums, strict=True):
            self._store(b, total, place, mask)
        following = b.add(x, self.word(self.lanes))
        x.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, columns), loop, after)
        b.position_at_end(after)

    def _taps(self, b: Any, function: Any, rows: list[Any], first: list[Any]) -> list[Any]:
        """Emit the loop over the taps; the sums after it."""
        _, _, starts, taps, weight, w_step, *_ = function.args
        before, loop, after = b.block, function.append_basic_block("taps"), function.append_basic_block("taps.end")
        b.branch(loop)
        b.position_at_end(loop)
        t, sums = b.phi(self.word), [b.phi(self.vector) for _ in first]
        t.add_incoming(self.word(0), before)
        start = b.load(b.gep(starts, [t]))
        factor = self._splat(b, b.load(b.gep(weight, [b.mul(t, w_step)])))
        operands = [b.load(b.bitcast(b.gep(row, [start]), self.vector.as_pointer()), align=self.bits // 8) for row in rows]
        fma = self._declared(f"llvm.fma.v{self.lanes}f{self.bits}", self.vector, [self.vector] * 3)
        after_step = [b.call(fma, [factor, operand, total]) for operand, total in zip(operands, sums, strict=True)]
        following = b.add(t, self.word(1))
        t.add_incoming(following, loop)
        for total, value, result in zip(sums, first, after_step, strict=True):
            total.add_incoming(value, before)
            total.add_incoming(result, loop)
        b.cbranch(b.icmp_signed("<", following, taps), loop, after)
        b.position_at_end(after)
        return after_step

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
