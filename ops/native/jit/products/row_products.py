"""Products of rows with rows: sums along contiguous elements, for few columns, which leave a tile's vectors mostly empty."""

from __future__ import annotations

from typing import Any

from ...code_parts import is_declared_only
from ...memory import set_machine_form, twin
from .register_tile import TILE_ROWS, panel_width, registers_name


@twin
def multiply_by_rows(
    a: Any, a_at: int, a_row: int, b: Any, b_at: int, b_row: int, out: Any, out_at: int, out_row: int, rows: int, inner: int,
    columns: int, add: int,
) -> None:  # fmt: skip
    """Compute ``out[i, j] = sum of a[i, k] * b[j, k]``; add it to ``out[i, j]`` if ``add`` is not 0.

    ``i`` below ``rows``, at most TILE_ROWS; ``j`` below ``columns``; ``k`` below ``inner``: each lane of a vector sums every
    ``panel_width``-th element, then halves of the vector are added.  Rows are ``a_row``, ``b_row`` and ``out_row`` elements
    apart.  Contiguous arrays of one dtype, float32 or float64; ``*_at``: their first elements.
    """
    a, b, out = a.reshape(-1), b.reshape(-1), out.reshape(-1)
    for i in range(int(rows)):
        for j in range(int(columns)):
            total = out[int(out_at + i * out_row + j)] if add else out.dtype.type(0)
            for k in range(int(inner)):
                total += a[int(a_at + i * a_row + k)] * b[int(b_at + j * b_row + k)]
            out[int(out_at + i * out_row + j)] = total


def _machine(
    emitter: Any, a: Any, a_at: Any, a_row: Any, b: Any, b_at: Any, b_row: Any, out: Any, out_at: Any, out_row: Any, rows: Any,
    inner: Any, columns: Any, add: Any,
) -> None:  # fmt: skip
    assert a.type.dtype == b.type.dtype == out.type.dtype, (a, b, out)
    builder, word = emitter.builder, emitter.word

    def pointer(array: Any, at: Any) -> Any:
        return builder.gep(array.parts[0], [word(at)])

    given = [
        pointer(a, a_at), word(a_row), pointer(b, b_at), word(b_row), pointer(out, out_at), word(out_row), word(inner),
        word(columns), word(add),
    ]  # fmt: skip
    after = builder.append_basic_block("end")
    of_rows = builder.switch(word(rows), after)
    for n in range(1, TILE_ROWS + 1):
        case = builder.append_basic_block("rows")
        of_rows.add_case(word(rows).type(n), case)
        builder.position_at_end(case)
        builder.call(_Products(builder.module, out.parts[0].type.pointee, n).function(), given)
        builder.branch(after)
    builder.position_at_end(after)


class _Products:
    """Generator of the LLVM function for ``rows`` rows."""

    def __init__(self, module: Any, element: Any, rows: int) -> None:
        from llvmlite import ir

        self.module, self.element, self.rows, self.word = module, element, rows, ir.IntType(64)
        self.bits = 64 if element == ir.DoubleType() else 32
        self.lanes = panel_width(self.bits // 8)
        self.vector = ir.VectorType(element, self.lanes)
        self.name = f"relayvm.row_products.f{self.bits}.{rows}"

    def function(self) -> Any:
        """The function: pointers and words in the order of ``multiply_by_rows``, without ``rows``."""
        from llvmlite import ir

        if self.name in self.module.globals:
            return self.module.globals[self.name]
        pointer, word = self.element.as_pointer(), self.word
        kinds = [pointer, word, pointer, word, pointer, word, word, word, word]
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), kinds), self.name)
        element, count = self.element, self.rows

        def again(module: Any) -> Any:
            return _Products(module, element, count).function()

        if is_declared_only(function, f"{self.name} {registers_name()}", again):
            return function
        function.linkage = "internal"
        function.attributes.add("noinline")
        self._fill(function)
        return function

    def _fill(self, function: Any) -> None:
        """Emit the loop over the columns."""
        from llvmlite import ir

        a, a_row, b, b_row, out, out_row, _, columns, add = function.args
        entry, loop, end = (function.append_basic_block(name) for name in ("entry", "column", "end"))
        builder = ir.IRBuilder(entry)
        rows = [builder.gep(a, [builder.mul(a_row, self.word(i))]) for i in range(self.rows)]
        results = [builder.gep(out, [builder.mul(out_row, self.word(i))]) for i in range(self.rows)]
        builder.cbranch(builder.icmp_signed(">", columns, self.word(0)), loop, end)
        builder.position_at_end(loop)
        column = builder.phi(self.word)
        column.add_incoming(self.word(0), entry)
        sums = self._sums(builder, function, rows, builder.gep(b, [builder.mul(b_row, column)]))
        zero = ir.Constant(self.element, 0.0)
        for total, result in zip(sums, results, strict=True):
            place = builder.gep(result, [column])
            before = builder.select(builder.icmp_signed("!=", add, self.word(0)), builder.load(place), zero)
            builder.store(builder.fadd(before, self._total(builder, total)), place)
        following = builder.add(column, self.word(1))
        column.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, columns), loop, end)
        builder.position_at_end(end)
        builder.ret_void()

    def _sums(self, builder: Any, function: Any, rows: list[Any], other: Any) -> list[Any]:
        """Emit the loop along whole vectors, then the last, partial vector: the vectors of sums."""
        from llvmlite import ir

        inner = function.args[6]
        whole = builder.and_(inner, self.word(-self.lanes))
        before, loop, after = builder.block, function.append_basic_block("along"), function.append_basic_block("rest")
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        builder.cbranch(builder.icmp_signed(">", whole, self.word(0)), loop, after)
        builder.position_at_end(loop)
        k, sums = builder.phi(self.word), [builder.phi(self.vector) for _ in rows]
        k.add_incoming(self.word(0), before)
        added = self._step(builder, rows, other, k, sums, None)
        following = builder.add(k, self.word(self.lanes))
        k.add_incoming(following, loop)
        for total, result in zip(sums, added, strict=True):
            total.add_incoming(zero, before)
            total.add_incoming(result, loop)
        builder.cbranch(builder.icmp_signed("<", following, whole), loop, after)
        builder.position_at_end(after)
        joined = [builder.phi(self.vector) for _ in rows]
        for total, result in zip(joined, added, strict=True):
            total.add_incoming(zero, before)
            total.add_incoming(result, loop)
        return self._step(builder, rows, other, whole, joined, self._mask(builder, builder.sub(inner, whole)))

    def _step(self, builder: Any, rows: list[Any], other: Any, k: Any, sums: list[Any], mask: Any) -> list[Any]:
        fma = self._declared(f"llvm.fma.v{self.lanes}f{self.bits}", self.vector, [self.vector] * 3)
        factor = self._load(builder, other, k, mask)
        return [builder.call(fma, [self._load(builder, row, k, mask), factor, s]) for row, s in zip(rows, sums, strict=True)]

    def _load(self, builder: Any, row: Any, k: Any, mask: Any) -> Any:
        from llvmlite import ir

        number, place = ir.IntType(32), builder.bitcast(builder.gep(row, [k]), self.vector.as_pointer())
        if mask is None:
            return builder.load(place, align=self.bits // 8)
        kinds = [place.type, number, mask.type, self.vector]
        load = self._declared(f"llvm.masked.load.v{self.lanes}f{self.bits}.p0", self.vector, kinds)
        zero = ir.Constant(self.vector, [0.0] * self.lanes)
        return builder.call(load, [place, number(self.bits // 8), mask, zero])

    def _mask(self, builder: Any, count: Any) -> Any:
        """The lanes below ``count``."""
        from llvmlite import ir

        kind = ir.VectorType(self.word, self.lanes)
        first = builder.insert_element(ir.Constant(kind, ir.Undefined), count, ir.IntType(32)(0))
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), self.lanes), [0] * self.lanes)
        counts = builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), everywhere)
        return builder.icmp_signed("<", ir.Constant(kind, list(range(self.lanes))), counts)

    def _total(self, builder: Any, vector: Any) -> Any:
        """The sum of all lanes: halves are added until one lane is left."""
        from llvmlite import ir

        number, lanes = ir.IntType(32), self.lanes
        while lanes > 1:
            lanes //= 2
            nothing = ir.Constant(vector.type, ir.Undefined)
            low, high = (
                builder.shuffle_vector(vector, nothing, ir.Constant(ir.VectorType(number, lanes), list(range(at, at + lanes))))
                for at in (0, lanes)
            )
            vector = builder.fadd(low, high)
        return builder.extract_element(vector, number(0))

    def _declared(self, name: str, result: Any, arguments: list[Any]) -> Any:
        from llvmlite import ir

        return self.module.globals.get(name) or ir.Function(self.module, ir.FunctionType(result, arguments), name)


set_machine_form(multiply_by_rows, lambda: _machine)
