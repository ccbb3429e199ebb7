"""A tile of a matrix product in vector registers: a few rows times one panel of columns, summed along the inner axis.

A panel holds columns of a matrix side by side: element ``(k, j)`` is at ``k * width + j``, so a tile reads the panel as one
stream.  A row of a panel has PANEL_BYTES on every machine, so that executables with panels run anywhere; where registers are
narrower, a panel is several tiles wide.

The sums of a tile stay in registers; each step along the inner axis reads a row of the panel, and one element of each row of the
other matrix.  The scheme is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from ..memory import set_machine_form, twin

#: The most rows of a tile.
TILE_ROWS = 6
#: Bytes of a row of a panel: four registers of AVX-512.
PANEL_BYTES = 256


@dataclass(frozen=True)
class RegisterTile:
    """The tile for elements of one size: up to TILE_ROWS rows of ``vectors`` registers with ``lanes`` elements each."""

    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        """The number of columns; a panel has a multiple of it."""
        return self.vectors * self.lanes


def panel_width(itemsize: int) -> int:
    """The number of columns of a panel of floats of ``itemsize`` bytes."""
    return PANEL_BYTES // itemsize


@functools.cache
def register_tile(itemsize: int) -> RegisterTile:
    """The tile for floats of ``itemsize`` bytes on this machine.

    Registers hold the sums, a row of the panel, and an element of the other matrix: 29 of the 32 registers of AVX-512 and NEON,
    15 of the 16 of AVX.  Seven rows of sums would need 33: measured, tiles that spill take 1.4 times as long.
    """
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return RegisterTile(4, 64 // itemsize)
    if features.get("neon") or llvm.get_default_triple().startswith(("aarch64", "arm64")):
        return RegisterTile(4, 16 // itemsize)
    return RegisterTile(2, (32 if features.get("avx") else 16) // itemsize)


@twin
def multiply_panel(
    a: Any, a_at: int, a_row: int, panel: Any, panel_at: int, out: Any, out_at: int, out_row: int, rows: int, inner: int,
    columns: int, add: int,
) -> None:  # fmt: skip
    """Compute ``out[i, j] = sum of a[i, k] * panel[k, j]``, plus the former ``out[i, j]`` if ``add`` is not 0.

    ``i`` below ``rows``, at most TILE_ROWS; ``j`` below ``columns``, at most the width of a panel; ``k`` below
    ``inner``, in order.  The rows of ``a`` are ``a_row`` elements apart, those of ``out`` ``out_row`` elements.  Contiguous
    arrays of one dtype, float32 or float64; ``*_at``: their first elements.
    """
    width = panel_width(out.itemsize)
    a, panel, out = a.reshape(-1), panel.reshape(-1), out.reshape(-1)
    for i in range(int(rows)):
        for j in range(int(columns)):
            total = out[int(out_at + i * out_row + j)] if add else out.dtype.type(0)
            for k in range(int(inner)):
                total += a[int(a_at + i * a_row + k)] * panel[int(panel_at + k * width + j)]
            out[int(out_at + i * out_row + j)] = total


def _machine() -> Any:
    from llvmlite import ir
    from numba import types
    from numba.core import cgutils

    from .intrinsics import intrinsic

    @intrinsic
    def multiply(
        typing: Any, a: Any, a_at: Any, a_row: Any, panel: Any, panel_at: Any, out: Any, out_at: Any, out_row: Any, rows: Any,
        inner: Any, columns: Any, add: Any,
    ) -> Any:  # fmt: skip
        assert a.dtype == panel.dtype == out.dtype, (a, panel, out)
        tile = register_tile(out.dtype.bitwidth // 8)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            def pointer(array: int) -> Any:
                data = cgutils.create_struct_proxy(signature.args[array])(context, builder, args[array]).data
                return builder.gep(data, [args[array + 1]])

            element = context.get_data_type(out.dtype)
            a_row, out_row, rows, inner, columns, to_add = (args[k] for k in (2, 7, 8, 9, 10, 11))
            for first in range(0, panel_width(out.dtype.bitwidth // 8), tile.width):
                offset = ir.Constant(columns.type, first)
                here = builder.sub(columns, offset)
                in_panel, in_out = (builder.gep(pointer(k), [offset]) for k in (3, 5))
                given = [pointer(0), a_row, in_panel, in_out, out_row, inner, here, to_add]
                _call_tile(builder, element, tile, rows, given)
            return context.get_dummy_value()

        word = types.int64
        return types.void(a, word, word, panel, word, out, word, word, word, word, word, word), generate

    return multiply


def _call_tile(builder: Any, element: Any, tile: RegisterTile, rows: Any, given: list[Any]) -> None:
    """Call the function of a tile for its rows and columns, if it has columns."""
    from llvmlite import ir

    columns = given[-2]
    blocks = {name: builder.append_basic_block(name) for name in ("some", "part", "whole", "end")}
    builder.cbranch(builder.icmp_signed(">", columns, columns.type(0)), blocks["some"], blocks["end"])
    builder.position_at_end(blocks["some"])
    builder.cbranch(builder.icmp_signed("<", columns, columns.type(tile.width)), blocks["part"], blocks["whole"])
    for name in ("part", "whole"):
        builder.position_at_end(blocks[name])
        of_rows = builder.switch(rows, blocks["end"])
        for n in range(1, TILE_ROWS + 1):
            case = builder.append_basic_block("rows")
            of_rows.add_case(ir.Constant(rows.type, n), case)
            builder.position_at_end(case)
            builder.call(_TileFunction(builder.module, element, tile, n, name == "part").function(), given)
            builder.branch(blocks["end"])
    builder.position_at_end(blocks["end"])


class _TileFunction:
    """Generator of the LLVM function of a tile of ``rows`` rows; ``part``: of a part of a panel's columns, by masks."""

    def __init__(self, module: Any, element: Any, tile: RegisterTile, rows: int, part: bool) -> None:
        from llvmlite import ir

        self.module, self.element, self.tile, self.rows, self.part = module, element, tile, rows, part
        self.word = ir.IntType(64)
        self.vector = ir.VectorType(element, tile.lanes)
        self.bits = 64 if element == ir.DoubleType() else 32
        self.panel = panel_width(self.bits // 8)
        self.name = f"relayvm.product_tile.f{self.bits}.{rows}.{'part' if part else 'whole'}"

    def function(self) -> Any:
        """The function: pointers and sizes in the order of ``multiply_panel``, without ``rows``."""
        from llvmlite import ir

        if self.name in self.module.globals:
            return self.module.globals[self.name]
        pointer = self.element.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, self.word, pointer, pointer, *[self.word] * 4])
        function = ir.Function(self.module, kind, self.name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        self._fill(function)
        return function

    def _fill(self, function: Any) -> None:
        from llvmlite import ir

        a, a_row, panel, out, out_row, inner, columns, add = function.args
        blocks = {name: function.append_basic_block(name) for name in ("entry", "former", "begin", "step", "end")}
        builders = {name: ir.IRBuilder(block) for name, block in blocks.items()}
        entry = builders["entry"]
        masks = self._masks(entry, columns) if self.part else [None] * self.tile.vectors
        rows_of_out = [entry.gep(out, [entry.mul(out_row, self.word(i))]) for i in range(self.rows)]
        rows_of_a = [entry.gep(a, [entry.mul(a_row, self.word(i))]) for i in range(self.rows)]
        entry.cbranch(entry.icmp_signed("==", add, self.word(0)), blocks["begin"], blocks["former"])
        places = [(row, j, masks[j]) for row in rows_of_out for j in range(self.tile.vectors)]
        former = [self._load(builders["former"], row, j, mask) for row, j, mask in places]
        builders["former"].branch(blocks["begin"])
        zero = ir.Constant(self.vector, [0.0] * self.tile.lanes)
        begin, step, end = builders["begin"], builders["step"], builders["end"]
        first = [self._join(begin, {blocks["entry"]: zero, blocks["former"]: value}) for value in former]
        begin.cbranch(begin.icmp_signed(">", inner, self.word(0)), blocks["step"], blocks["end"])
        k = self._join(step, {blocks["begin"]: self.word(0)})
        sums = [self._join(step, {blocks["begin"]: value}) for value in first]
        after = self._step(step, rows_of_a, panel, k, sums)
        following = step.add(k, self.word(1))
        k.add_incoming(following, blocks["step"])
        for total, value in zip(sums, after, strict=True):
            total.add_incoming(value, blocks["step"])
        step.cbranch(step.icmp_signed("<", following, inner), blocks["step"], blocks["end"])
        pairs = zip(first, after, strict=True)
        totals = [self._join(end, {blocks["begin"]: value, blocks["step"]: result}) for value, result in pairs]
        for total, (row, j, mask) in zip(totals, places, strict=True):
            self._store(end, total, row, j, mask)
        end.ret_void()

    def _step(self, builder: Any, rows_of_a: list[Any], panel: Any, k: Any, sums: list[Any]) -> list[Any]:
        """One step along the inner axis: the sums after it."""
        from numba.core import cgutils

        vectors = self.tile.vectors
        row = builder.gep(panel, [builder.mul(k, self.word(self.panel))])
        across = [self._load(builder, row, j, None) for j in range(vectors)]
        kind = _function_type(self.vector, [self.vector] * 3)
        fma = cgutils.get_or_insert_function(self.module, kind, f"llvm.fma.{self._suffix}")
        down = [self._splat(builder, builder.load(builder.gep(row_of_a, [k])), self.element) for row_of_a in rows_of_a]
        return [builder.call(fma, [down[n // vectors], across[n % vectors], total]) for n, total in enumerate(sums)]

    @property
    def _suffix(self) -> str:
        """The vector type in names of LLVM's intrinsics."""
        return f"v{self.tile.lanes}f{self.bits}"

    def _join(self, builder: Any, incoming: dict[Any, Any]) -> Any:
        """A phi node: the value of the block that control came from."""
        node = builder.phi(next(iter(incoming.values())).type)
        for source, value in incoming.items():
            node.add_incoming(value, source)
        return node

    def _splat(self, builder: Any, value: Any, kind: Any) -> Any:
        from llvmlite import ir

        nothing = ir.Constant(ir.VectorType(kind, self.tile.lanes), ir.Undefined)
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.tile.lanes), [0] * self.tile.lanes)
        return builder.shuffle_vector(builder.insert_element(nothing, value, ir.IntType(32)(0)), nothing, lanes)

    def _masks(self, builder: Any, columns: Any) -> list[Any]:
        """Per vector of a row: which of its lanes are among the columns."""
        from llvmlite import ir

        lanes, kind = self.tile.lanes, ir.VectorType(self.word, self.tile.lanes)
        end = self._splat(builder, columns, self.word)
        numbers = [ir.Constant(kind, list(range(j * lanes, (j + 1) * lanes))) for j in range(self.tile.vectors)]
        return [builder.icmp_signed("<", number, end) for number in numbers]

    def _place(self, builder: Any, row: Any, j: int) -> Any:
        return builder.bitcast(builder.gep(row, [self.word(j * self.tile.lanes)]), self.vector.as_pointer())

    def _load(self, builder: Any, row: Any, j: int, mask: Any) -> Any:
        """Vector ``j`` of a row; where a mask is not set, nothing is read."""
        from llvmlite import ir

        place = self._place(builder, row, j)
        if mask is None:
            return builder.load(place, align=self.bits // 8)
        zero = ir.Constant(self.vector, [0.0] * self.tile.lanes)
        return builder.call(self._masked("load", mask), [place, ir.IntType(32)(self.bits // 8), mask, zero])

    def _store(self, builder: Any, value: Any, row: Any, j: int, mask: Any) -> None:
        from llvmlite import ir

        place = self._place(builder, row, j)
        if mask is None:
            builder.store(value, place, align=self.bits // 8)
        else:
            builder.call(self._masked("store", mask), [value, place, ir.IntType(32)(self.bits // 8), mask])

    def _masked(self, what: str, mask: Any) -> Any:
        """LLVM's intrinsic for a masked load or store."""
        from llvmlite import ir
        from numba.core import cgutils

        place, word = self.vector.as_pointer(), ir.IntType(32)
        if what == "load":
            kind = _function_type(self.vector, [place, word, mask.type, self.vector])
        else:
            kind = _function_type(ir.VoidType(), [self.vector, place, word, mask.type])
        return cgutils.get_or_insert_function(self.module, kind, f"llvm.masked.{what}.{self._suffix}.p0{self._suffix}")


def _function_type(result: Any, arguments: list[Any]) -> Any:
    from llvmlite import ir

    return ir.FunctionType(result, arguments)


set_machine_form(multiply_panel, _machine)
