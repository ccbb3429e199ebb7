"""Transformations of Winograd's convolution of a window of 3 x 3 for neighbouring tiles of a row, of some channels.

A tile of 4 x 4 data gives 2 x 2 results, with stride 2 a tile of 5 x 5 data; tiles are 2 or 4 elements apart.  The same element
of neighbouring tiles is a vector: every second or fourth element of a row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from ...code_parts import is_declared_only
from ...memory import set_machine_form, twin
from ...vector_registers import registers_name, vector_bytes
from ..products.register_tile import PANEL_BYTES
from .winograd_axis import AXES, RESULTS, Axis, total

#: Elements of the shortest vectors: of a register on every machine.
LEAST_LANES = 4
#: Bytes of the zeros that stand for a row outside the data.
ZERO_BYTES = 5 * PANEL_BYTES


@twin
def transform_data(
    data: Any, at: int, height: int, width: int, first_row: int, first_column: int, channel: int, channels: int, zeros: Any,
    out: Any, to: int, step: int, row: int, count: int,
) -> None:  # fmt: skip
    """Store the 16 elements of ``B^T d B`` of ``count`` tiles of each channel.

    Element ``n`` of tile ``j`` of channel ``i`` is stored at ``to + n * step + i * row + j``.  Element ``(y, x)`` of the tile
    ``d`` is that of row ``first_row + y`` and column ``first_column + 2 * j + x`` of the data, or 0 outside ``height`` rows and
    ``width`` columns; channels are ``channel`` elements apart.  ``zeros`` begins with ZERO_BYTES of zeros.  Contiguous arrays
    of float32; ``at``, ``to``: the first elements.  Elements behind are overwritten, up to a multiple of LEAST_LANES tiles.
    """
    _store_data(
        AXES[1], data, at, height, width, first_row, first_column, channel, channels, out.reshape(-1), to, step, row, count
    )  # fmt: skip


@twin
def transform_strided_data(
    data: Any, at: int, height: int, width: int, first_row: int, first_column: int, channel: int, channels: int, zeros: Any,
    out: Any, to: int, step: int, row: int, count: int,
) -> None:  # fmt: skip
    """As ``transform_data`` with stride 2: 25 elements of a tile, which is 4 columns from the next."""
    _store_data(
        AXES[2], data, at, height, width, first_row, first_column, channel, channels, out.reshape(-1), to, step, row, count
    )  # fmt: skip


@twin
def transform_sums(
    sums: Any, at: int, step: int, row: int, channels: int, out: Any, to: int, out_row: int, below: int, count: int
) -> None:
    """Store ``A^T m A`` of ``count`` tiles of each channel; ``m`` has 16 elements, as those of ``transform_data``.

    Result ``(y, x)`` of tile ``j`` of channel ``i`` is stored at ``to + i * out_row + y * below + 2 * j + x``; elements behind
    are overwritten, up to PANEL_BYTES of tiles.  Contiguous arrays of float32.
    """
    _store_sums(AXES[1], sums.reshape(-1), at, step, row, channels, out.reshape(-1), to, out_row, below, count)


@twin
def transform_strided_sums(
    sums: Any, at: int, step: int, row: int, channels: int, out: Any, to: int, out_row: int, below: int, count: int
) -> None:
    """As ``transform_sums`` with stride 2: ``m`` has 25 elements, as those of ``transform_strided_data``."""
    _store_sums(AXES[2], sums.reshape(-1), at, step, row, channels, out.reshape(-1), to, out_row, below, count)


def _store_data(
    axis: Axis, data: Any, at: int, height: int, width: int, first_row: int, first_column: int, channel: int, channels: int,
    out: Any, to: int, step: int, row: int, count: int,
) -> None:  # fmt: skip
    data = data.reshape(-1)
    for i in range(int(channels)):
        for j in range(int(count)):
            tile = [[out.dtype.type(0)] * axis.tile for _ in range(axis.tile)]
            for y in range(axis.tile):
                for x in range(axis.tile):
                    line, along = int(first_row + y), int(first_column + axis.step * j + x)
                    if 0 <= line < height and 0 <= along < width:
                        tile[y][x] = data[int(at + i * channel + line * width + along)]
            for n, value in enumerate(_along_both(axis.data, tile)):
                out[int(to + n * step + i * row + j)] = value


def _store_sums(
    axis: Axis, sums: Any, at: int, step: int, row: int, channels: int, out: Any, to: int, out_row: int, below: int, count: int
) -> None:
    for i in range(int(channels)):
        for j in range(int(count)):
            first = int(at + i * row + j)
            tile = [[sums[first + (y * axis.tile + x) * int(step)] for x in range(axis.tile)] for y in range(axis.tile)]
            for n, value in enumerate(_along_both(axis.sums, tile)):
                out[int(to + i * out_row + n // RESULTS * below + RESULTS * j + n % RESULTS)] = value


def _along_both(combinations: tuple[Any, ...], tile: list[list[Any]]) -> list[Any]:
    """The combinations of each row, then of each column; by rows."""

    def along(elements: Any) -> list[Any]:
        return [total(terms, elements.__getitem__, operator.add, operator.sub) for terms in combinations]

    columns = [along(column) for column in zip(*map(along, tile), strict=True)]
    return [value for line in zip(*columns, strict=True) for value in line]


def _data_machine(axis: Axis) -> Callable[[], Any]:
    def form(
        emitter: Any, data: Any, at: Any, height: Any, width: Any, first_row: Any, first_column: Any, channel: Any, channels: Any,
        zeros: Any, out: Any, to: Any, step: Any, row: Any, count: Any,
    ) -> None:  # fmt: skip
        b, word = emitter.builder, emitter.word
        given = [b.gep(data.parts[0], [word(at)]), *map(word, (height, width, first_row, first_column, channel, channels))]
        given += [zeros.parts[0], b.gep(out.parts[0], [word(to)]), *map(word, (step, row, count))]
        b.call(_DataTiles(b.module, out.parts[0].type.pointee, axis).function(), given)

    return lambda: form


def _sums_machine(axis: Axis) -> Callable[[], Any]:
    def form(
        emitter: Any, sums: Any, at: Any, step: Any, row: Any, channels: Any, out: Any, to: Any, out_row: Any, below: Any,
        count: Any,
    ) -> None:  # fmt: skip
        b, word = emitter.builder, emitter.word
        given = [b.gep(sums.parts[0], [word(at)]), *map(word, (step, row, channels)), b.gep(out.parts[0], [word(to)])]
        b.call(_SumTiles(b.module, out.parts[0].type.pointee, axis).function(), [*given, *map(word, (out_row, below, count))])

    return lambda: form


class _Tiles:
    """Generator of the LLVM function of a transformation.  ``pointers``: the places of pointers among its arguments."""

    kind = ""
    pointers: tuple[int, ...] = ()
    arguments = 0

    def __init__(self, module: Any, element: Any, axis: Axis) -> None:
        from llvmlite import ir

        self.module, self.element, self.word, self.axis = module, element, ir.IntType(64), axis
        self.name = f"relayvm.winograd_{self.kind}.{axis.stride}"
        self.lanes = vector_bytes() // 4

    def function(self) -> Any:
        """The function: pointers and words in the order of the twin's arguments."""
        from llvmlite import ir

        if self.name in self.module.globals:
            return self.module.globals[self.name]
        kinds = [self.element.as_pointer() if n in self.pointers else self.word for n in range(self.arguments)]
        function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), kinds), self.name)
        for n in self.pointers:
            function.args[n].add_attribute("noalias")
        own, element, axis = type(self), self.element, self.axis

        def again(module: Any) -> Any:
            return own(module, element, axis).function()

        if is_declared_only(function, f"{self.name} {registers_name()}", again):
            return function
        function.linkage = "internal"
        for attribute in ("noinline", "optsize"):  # no loop is unrolled
            function.attributes.add(attribute)
        builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._fill(builder, function)
        builder.ret_void()
        return function

    def _fill(self, b: Any, function: Any) -> None:
        raise NotImplementedError

    def _loop(self, b: Any, end: Any, body: Any, *state: Any) -> None:
        """Emit ``body(number, *state) -> [following number, *following state]`` from 0 on, while numbers are below ``end``."""
        before, loop, after = b.block, b.append_basic_block("loop"), b.append_basic_block("loop.end")
        b.branch(loop)
        b.position_at_end(loop)
        values = (self.word(0), *state)
        nodes = [b.phi(value.type) for value in values]
        for node, value in zip(nodes, values, strict=True):
            node.add_incoming(value, before)
        following = body(*nodes)
        for node, value in zip(nodes, following, strict=True):
            node.add_incoming(value, b.block)
        b.cbranch(b.icmp_signed("<", following[0], end), loop, after)
        b.position_at_end(after)

    def _some(self, b: Any, count: Any, body: Any) -> None:
        """Emit ``body()``, which runs if ``count`` is not 0."""
        some, none = b.append_basic_block("some"), b.append_basic_block("none")
        b.cbranch(b.icmp_signed(">", count, self.word(0)), some, none)
        b.position_at_end(some)
        body()
        b.branch(none)
        b.position_at_end(none)

    def _shuffled(self, b: Any, first: Any, second: Any, lanes: list[int]) -> Any:
        from llvmlite import ir

        return b.shuffle_vector(first, second, ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes))

    def _load(self, b: Any, place: Any, lanes: int, mask: Any = None) -> Any:
        """The elements of the mask, else 0; all elements without a mask."""
        from llvmlite import ir

        number, vector = ir.IntType(32), ir.VectorType(self.element, lanes)
        place = b.bitcast(place, vector.as_pointer())
        if mask is None:
            return b.load(place, align=4)
        bits = b.icmp_signed("<", mask, ir.Constant(mask.type, [0] * lanes))
        name = f"llvm.masked.load.v{lanes}f32.p0"
        kind = ir.FunctionType(vector, [place.type, number, bits.type, vector])
        load = self.module.globals.get(name) or ir.Function(self.module, kind, name)
        return b.call(load, [place, number(4), bits, ir.Constant(vector, [0.0] * lanes)])

    def _store(self, b: Any, value: Any, place: Any) -> None:
        b.store(value, b.bitcast(place, value.type.as_pointer()), align=4)

    def _inside(self, b: Any, lanes: int, first: Any, end: Any) -> Any:
        """The lanes from ``first`` to ``end`` (exclusive), any numbers; -1 in each.

        LLVM keeps a vector of bits in a register of its own only within a block.
        """
        from llvmlite import ir

        number = ir.IntType(32)
        numbers = ir.Constant(ir.VectorType(number, lanes), list(range(lanes)))
        nothing, positions = ir.Constant(numbers.type, ir.Undefined), ir.Constant(numbers.type, [0] * lanes)

        def limit(n: Any) -> Any:
            low = b.select(b.icmp_signed(">", n, self.word(0)), n, self.word(0))
            bounded = b.trunc(b.select(b.icmp_signed("<", low, self.word(lanes)), low, self.word(lanes)), number)
            return b.shuffle_vector(b.insert_element(nothing, bounded, number(0)), nothing, positions)

        inside = b.and_(b.icmp_signed(">=", numbers, limit(first)), b.icmp_signed("<", numbers, limit(end)))
        return b.sext(inside, numbers.type)


class _DataTiles(_Tiles):
    """Generator of the function of ``transform_data``."""

    kind, pointers, arguments = "data", (0, 7, 8), 12

    def _fill(self, b: Any, function: Any) -> None:
        data, height, width, first_row, first_column, channel, channels, zeros, out, step, row, count = function.args
        #: The elements to the other elements of a row of a tile, and to its other rows.
        side = self.axis.tile
        self.multiples, self.further = ([b.mul(step, self.word(n * m)) for n in range(side)] for m in (1, side))
        self.row, self.channels = row, channels
        rows = []
        for y in range(side):
            line = b.add(first_row, self.word(y))
            inside = b.icmp_unsigned("<", line, height)
            first = b.gep(data, [b.add(b.mul(line, width), first_column)])
            rows.append((inside, first, b.select(inside, channel, self.word(0))))

        def strip(j: Any) -> list[Any]:
            """A vector of tiles: a shorter one if few tiles are left, so that few elements behind are overwritten."""
            moved = b.mul(j, self.word(self.axis.step))
            along, left = b.add(first_column, moved), b.sub(count, j)
            starts = [b.select(inside, b.gep(place, [moved]), zeros) for inside, place, _ in rows]
            positions, steps = [b.gep(out, [j]), *starts], [step for *_, step in rows]
            after, done = b.append_basic_block("after"), []
            for lanes in self.sizes:
                if lanes > LEAST_LANES:
                    wide, narrow = b.append_basic_block("wide"), b.append_basic_block("narrow")
                    b.cbranch(b.icmp_signed(">", left, self.word(lanes - LEAST_LANES)), wide, narrow)
                    b.position_at_end(wide)
                self._strip(b, lanes, along, width, positions, steps)
                done.append((b.add(j, self.word(lanes)), b.block))
                b.branch(after)
                if lanes > LEAST_LANES:
                    b.position_at_end(narrow)
            b.position_at_end(after)
            following = b.phi(self.word)
            for value, block in done:
                following.add_incoming(value, block)
            return [following]

        self._some(b, channels, lambda: self._some(b, count, lambda: self._loop(b, count, strip)))

    @property
    def sizes(self) -> list[int]:
        """The elements of vectors, long ones first."""
        return [self.lanes >> n for n in range(self.lanes.bit_length()) if self.lanes >> n >= LEAST_LANES]

    def _strip(self, b: Any, lanes: int, along: Any, width: Any, positions: list[Any], steps: list[Any]) -> None:
        """Emit the loop over channels for a vector of tiles whose first element is in column ``along``."""
        # with stride 2 the last vector is there for its last element, that of the last tile
        offsets = [0, lanes, 2, 2 + lanes] if self.axis.stride == 1 else [n * lanes for n in range(4)] + [3 * lanes + 1]
        ends = b.sub(width, self.word(offsets[-1] + lanes))
        is_inside = b.and_(b.icmp_signed(">=", along, self.word(0)), b.icmp_signed("<=", along, ends))
        inside, beyond, after = (b.append_basic_block(name) for name in ("inside", "beyond", "after"))
        b.cbranch(is_inside, inside, beyond)
        b.position_at_end(beyond)
        starts = [b.add(along, self.word(offset)) for offset in offsets]
        masks = [self._inside(b, lanes, b.neg(begin), b.sub(width, begin)) for begin in starts]
        for block, given in ((inside, [None] * len(offsets)), (beyond, masks)):
            b.position_at_end(block)

            def channel(i: Any, *at: Any, given: list[Any] = given) -> list[Any]:
                self._tile(b, at[0], at[1:], list(zip(offsets, given, strict=True)), lanes)
                following = [b.gep(place, [step]) for place, step in zip(at, [self.row, *steps], strict=True)]
                return [b.add(i, self.word(1)), *following]

            self._loop(b, self.channels, channel, *positions)
            b.branch(after)
        b.position_at_end(after)

    def _line(self, b: Any, place: Any, vectors: list[Any], lanes: int) -> list[Any]:
        """The elements of a row of each tile."""
        if self.axis.stride == 2:
            return self._strided_line(b, [self._load(b, b.gep(place, [self.word(n)]), lanes, mask) for n, mask in vectors], lanes)
        if vectors[0][1] is None and lanes == 2 * LEAST_LANES:
            # instructions of AVX take elements of the same half of two vectors: load the halves in this order
            half = lanes // 2
            loaded = []
            for first in (0, 2):
                four = [self._load(b, b.gep(place, [self.word(first + n * half)]), half) for n in range(4)]
                order = list(range(lanes))
                loaded += [self._shuffled(b, four[n], four[n + 2], order) for n in range(2)]
            order = [0, 2, 8, 10, 4, 6, 12, 14]
        else:
            loaded = [self._load(b, b.gep(place, [self.word(offset)]), lanes, mask) for offset, mask in vectors]
            order = list(range(0, 2 * lanes, 2))
        return [
            self._shuffled(b, first, second, [n + parity for n in order])
            for first, second in (loaded[:2], loaded[2:])
            for parity in (0, 1)
        ]

    def _strided_line(self, b: Any, loaded: list[Any], lanes: int) -> list[Any]:
        """The elements of a row of each tile, from every fourth of four vectors; the last element is the next tile's first."""
        found = []
        for x in range(4):
            order = list(range(x, 2 * lanes, 4))
            first, second = (self._shuffled(b, loaded[n], loaded[n + 1], order) for n in (0, 2))
            found.append(self._shuffled(b, first, second, list(range(lanes))))
        return [*found, self._shuffled(b, found[0], loaded[4], [*range(1, lanes), 2 * lanes - 1])]

    def _tile(self, b: Any, to: Any, at: Any, vectors: list[Any], lanes: int) -> None:
        """Emit the transformation of a vector of tiles of a channel."""

        lines: dict[int, list[Any]] = {}

        def line(y: int) -> list[Any]:
            """The products' elements along a row, which is read when it is needed first."""
            if y not in lines:
                elements = self._line(b, at[y], vectors, lanes)
                lines[y] = [total(terms, elements.__getitem__, b.fadd, b.fsub) for terms in self.axis.data]
            return lines[y]

        for y, terms in enumerate(self.axis.data):
            base = b.gep(to, [self.further[y]])
            read = {row: line(row) for _, row in terms}
            for number in range(self.axis.tile):
                column = {row: elements[number] for row, elements in read.items()}
                self._store(b, total(terms, column.__getitem__, b.fadd, b.fsub), b.gep(base, [self.multiples[number]]))


class _SumTiles(_Tiles):
    """Generator of the function of ``transform_sums``."""

    kind, pointers, arguments = "sums", (0, 4), 8

    def _fill(self, b: Any, function: Any) -> None:
        sums, step, row, channels, out, out_row, below, count = function.args
        side = self.axis.tile
        multiples, further = ([b.mul(step, self.word(n * m)) for n in range(side)] for m in (1, side))
        half = self.lanes // 2

        def vector(j: Any, place: Any, to: Any) -> list[Any]:
            lines = []
            for y in range(side):
                base = b.gep(place, [further[y]])
                lines.append(self._of_sums(b, [self._load(b, b.gep(base, [n]), self.lanes) for n in multiples]))
            results = [self._of_sums(b, column) for column in zip(*lines, strict=True)]
            for y in range(RESULTS):
                target = b.gep(to, [below]) if y else to
                for part in range(RESULTS):
                    order = [part * half + n // 2 + n % 2 * self.lanes for n in range(self.lanes)]
                    mixed = self._shuffled(b, results[0][y], results[1][y], order)
                    self._store(b, mixed, b.gep(target, [self.word(part * self.lanes)]))
            return [
                b.add(j, self.word(self.lanes)),
                b.gep(place, [self.word(self.lanes)]),
                b.gep(to, [self.word(RESULTS * self.lanes)]),
            ]

        def line(i: Any, place: Any, to: Any) -> list[Any]:
            self._loop(b, count, vector, place, to)
            return [b.add(i, self.word(1)), b.gep(place, [row]), b.gep(to, [out_row])]

        self._some(b, channels, lambda: self._some(b, count, lambda: self._loop(b, channels, line, sums, out)))

    def _of_sums(self, b: Any, elements: Any) -> list[Any]:
        return [total(terms, elements.__getitem__, b.fadd, b.fsub) for terms in self.axis.sums]


set_machine_form(transform_data, _data_machine(AXES[1]))
set_machine_form(transform_sums, _sums_machine(AXES[1]))
set_machine_form(transform_strided_data, _data_machine(AXES[2]))
set_machine_form(transform_strided_sums, _sums_machine(AXES[2]))
