"""A row of a panel (see ``products.register_tile``) of operands from anywhere: one vector, zero where there is no operand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...memory import set_machine_form, twin
from ..products.register_tile import PANEL_BYTES, panel_width, vector_bytes


@twin
def reads_rows_apart() -> bool:
    """Whether a tile of a product reads rows of a matrix where they are as fast as panels.

    Narrow vectors read a part of a row for each panel, of lines that are far apart.
    """
    return True


def _reads_rows_apart(emitter: Any) -> Any:
    from llvmlite import ir

    from ...front_end.machine_types import BOOL, Value

    return Value(BOOL, (ir.IntType(1)(int(vector_bytes() == PANEL_BYTES)),))


@twin
def store_run(panel: Any, to: int, data: Any, at: int, inside: int) -> None:
    """Store ``panel[to + j] = data[at + j]`` for each bit ``j`` of ``inside`` that is set, else 0; ``j`` below the panel's width.

    Nothing is read for a bit that is not set.  Contiguous arrays of one dtype, float32 or float64.
    """
    panel, data = panel.reshape(-1), data.reshape(-1)
    for j in range(panel_width(panel.itemsize)):
        panel[int(to) + j] = data[int(at) + j] if int(inside) >> j & 1 else 0


@twin
def store_two_runs(panel: Any, to: int, data: Any, at: int, inside: int, second: int, also_inside: int) -> None:
    """As ``store_run``, and ``panel[to + j] = data[second + j]`` for each bit ``j`` of ``also_inside``; no bit is set in both."""
    panel, data = panel.reshape(-1), data.reshape(-1)
    store_run(panel, to, data, at, inside)
    for j in range(panel_width(panel.itemsize)):
        if int(also_inside) >> j & 1:
            panel[int(to) + j] = data[int(second) + j]


@twin
def store_gathered(panel: Any, to: int, kept: int, data: Any, at: int, places: Any, first: int, inside: int) -> None:
    """As ``store_part``, of ``data[at + places[first + j]]``; ``places``: an int64 array."""
    panel, data = panel.reshape(-1), data.reshape(-1)
    for j in range(panel_width(panel.itemsize)):
        if int(kept) >> j & 1:
            panel[int(to) + j] = data[int(at) + int(places[int(first) + j])] if int(inside) >> j & 1 else 0


@twin
def store_alternate(panel: Any, to: int, data: Any, at: int, inside: int) -> None:
    """Store ``panel[to + j] = data[at + 2 * j]`` for each bit ``2 * j`` of ``inside`` that is set, else 0.

    ``j`` is below the panel's width.  Elements ``at + k`` may be read for any bit ``k`` that is set; arrays as of ``store_run``.
    """
    panel, data = panel.reshape(-1), data.reshape(-1)
    for j in range(panel_width(panel.itemsize)):
        panel[int(to) + j] = data[int(at) + 2 * j] if int(inside) >> 2 * j & 1 else 0


@twin
def store_part(panel: Any, to: int, kept: int, data: Any, at: int, inside: int) -> None:
    """As ``store_run``; only elements are stored whose bits of ``kept`` are set."""
    panel, data = panel.reshape(-1), data.reshape(-1)
    for j in range(panel_width(panel.itemsize)):
        if int(kept) >> j & 1:
            panel[int(to) + j] = data[int(at) + j] if int(inside) >> j & 1 else 0


@twin
def store_halves(panel: Any, to: int, also_to: int, kept: int, data: Any, at: int, inside: int) -> None:
    """Store ``panel[to + j] = data[at + 2 * j]`` and ``panel[also_to + j] = data[at + 2 * j + 1]``.

    ``j`` is below the panel's width, and bit ``j`` of ``kept`` is set.  Stored is 0, and nothing read, for ``data[at + k]`` if
    bit ``k`` of ``inside`` is not set.
    """
    panel, data = panel.reshape(-1), data.reshape(-1)
    for j in range(panel_width(panel.itemsize)):
        for k, target in ((2 * j, to), (2 * j + 1, also_to)):
            if int(kept) >> j & 1:
                panel[int(target) + j] = data[int(at) + k] if int(inside) >> k & 1 else 0


class PanelRow:
    """Generator of the machine forms for a row of one panel."""

    def __init__(self, emitter: Any, panel: Any, to: Any) -> None:
        from llvmlite import ir

        from ....core.tensor_types import ITEMSIZE

        self.builder, self.word = emitter.builder, emitter.word
        self.element = panel.parts[0].type.pointee
        self.nbytes = ITEMSIZE[panel.type.dtype]
        self.lanes = panel_width(self.nbytes)
        self.vector = ir.VectorType(self.element, self.lanes)
        b = self.builder
        self.zero = ir.Constant(self.vector, [0.0] * self.lanes)
        self.place = b.bitcast(b.gep(panel.parts[0], [self.word(to)]), self.vector.as_pointer())

    def mask(self, inside: Any, first: int = 0) -> Any:
        """The lanes whose bits are set, from bit ``first`` on."""
        from llvmlite import ir

        if vector_bytes() != PANEL_BYTES:  # no register of a bit for each lane
            number = ir.IntType(8 * self.nbytes)
            kind = ir.VectorType(number, self.lanes)
            bits = self.builder.trunc(self.builder.lshr(self.word(inside), ir.IntType(64)(first)), number)
            own = self.builder.and_(self.splat(bits, kind), ir.Constant(kind, [1 << n for n in range(self.lanes)]))
            return self.builder.icmp_unsigned("!=", own, ir.Constant(kind, [0] * self.lanes))
        bits = self.builder.trunc(self.builder.lshr(self.word(inside), ir.IntType(64)(first)), ir.IntType(self.lanes))
        return self.builder.bitcast(bits, ir.VectorType(ir.IntType(1), self.lanes))

    def at(self, data: Any, at: Any) -> Any:
        """The pointer to the vector that begins at an element."""
        return self.builder.bitcast(self.builder.gep(data.parts[0], [self.word(at)]), self.vector.as_pointer())

    def splat(self, value: Any, kind: Any) -> Any:
        """A vector with the value in every lane."""
        from llvmlite import ir

        nothing, number = ir.Constant(kind, ir.Undefined), ir.IntType(32)
        lanes = ir.Constant(ir.VectorType(number, self.lanes), [0] * self.lanes)
        return self.builder.shuffle_vector(self.builder.insert_element(nothing, value, number(0)), nothing, lanes)

    def load(self, name: str, source: Any, mask: Any, otherwise: Any = None) -> Any:
        """The result of one of LLVM's masked loads; ``otherwise``, or 0, where the mask is not set."""
        from llvmlite import ir

        full = f"llvm.masked.{name}.v{self.lanes}f{8 * self.nbytes}.{'p0' if name == 'load' else f'v{self.lanes}p0'}"
        kind = ir.FunctionType(self.vector, [source.type, ir.IntType(32), mask.type, self.vector])
        module = self.builder.module
        function = module.globals.get(full) or ir.Function(module, kind, full)
        return self.builder.call(function, [source, ir.IntType(32)(self.nbytes), mask, otherwise or self.zero])

    def part(self, source: Any, inside: Any, first: int = 0, otherwise: Any = None) -> Any:
        """The vector at ``source``, of which only elements are read whose bits of ``inside`` are set, from bit ``first`` on.

        Elsewhere it is ``otherwise``, or 0.
        """
        b = self.builder
        if vector_bytes() == PANEL_BYTES:
            return self.load("load", source, self.mask(inside, first), otherwise)
        whole, some, after = self._by_bits(inside, first)
        b.position_at_end(whole)
        value = b.load(source, align=self.nbytes)
        b.branch(after)
        b.position_at_end(some)
        other = self.load("load", source, self.mask(inside, first), otherwise)
        b.branch(after)
        b.position_at_end(after)
        found = b.phi(self.vector)
        found.add_incoming(value, whole)
        found.add_incoming(other, some)
        return found

    def store_part(self, value: Any, kept: Any) -> None:
        """Store the lanes whose bits of ``kept`` are set."""
        b = self.builder
        if vector_bytes() == PANEL_BYTES:
            self.store_masked(value, self.mask(kept))
            return
        whole, some, after = self._by_bits(kept, 0)
        b.position_at_end(whole)
        self.store(value)
        b.branch(after)
        b.position_at_end(some)
        self.store_masked(value, self.mask(kept))
        b.branch(after)
        b.position_at_end(after)

    def _by_bits(self, bits: Any, first: int) -> tuple[Any, Any, Any]:
        """Branch to one of two blocks, for all lanes and for some: masks take instructions; and the block after them."""
        from llvmlite import ir

        b, lanes = self.builder, ir.IntType(self.lanes)
        whole, some, after = (b.append_basic_block(name) for name in ("whole", "some", "after"))
        own = b.trunc(b.lshr(self.word(bits), ir.IntType(64)(first)), lanes)
        b.cbranch(b.icmp_unsigned("==", own, lanes((1 << self.lanes) - 1)), whole, some)
        return whole, some, after

    def store(self, value: Any) -> None:
        """Store the row."""
        self.builder.store(value, self.place, align=self.nbytes)

    def store_masked(self, value: Any, mask: Any) -> None:
        """Store the lanes of the mask."""
        from llvmlite import ir

        name = f"llvm.masked.store.v{self.lanes}f{8 * self.nbytes}.p0"
        kind = ir.FunctionType(ir.VoidType(), [self.vector, self.place.type, ir.IntType(32), mask.type])
        function = self.builder.module.globals.get(name) or ir.Function(self.builder.module, kind, name)
        self.builder.call(function, [value, self.place, ir.IntType(32)(self.nbytes), mask])


def _store_run(emitter: Any, panel: Any, to: Any, data: Any, at: Any, inside: Any) -> None:
    row = PanelRow(emitter, panel, to)
    row.store(row.part(row.at(data, at), inside))


def _store_two_runs(emitter: Any, panel: Any, to: Any, data: Any, at: Any, inside: Any, second: Any, also_inside: Any) -> None:
    row = PanelRow(emitter, panel, to)
    first = row.load("load", row.at(data, at), row.mask(inside))
    row.store(row.load("load", row.at(data, second), row.mask(also_inside), first))


def _store_gathered(
    emitter: Any, panel: Any, to: Any, kept: Any, data: Any, at: Any, places: Any, first: Any, inside: Any
) -> None:
    from llvmlite import ir

    row = PanelRow(emitter, panel, to)
    b, numbers = row.builder, ir.VectorType(ir.IntType(64), row.lanes)
    offsets = b.load(b.bitcast(b.gep(places.parts[0], [row.word(first)]), numbers.as_pointer()), align=8)
    start = row.splat(b.ptrtoint(b.gep(data.parts[0], [row.word(at)]), ir.IntType(64)), numbers)
    addresses = b.add(start, b.mul(offsets, ir.Constant(numbers, [row.nbytes] * row.lanes)))
    pointers = b.inttoptr(addresses, ir.VectorType(row.element.as_pointer(), row.lanes))
    row.store_part(row.load("gather", pointers, row.mask(inside)), kept)


def _store_alternate(emitter: Any, panel: Any, to: Any, data: Any, at: Any, inside: Any) -> None:
    from llvmlite import ir

    row = PanelRow(emitter, panel, to)
    b, number, last = row.builder, ir.IntType(32), row.lanes - 1
    near = row.at(data, at)
    low = row.part(near, inside)
    # the second vector begins at the last element of the first: its own last element is the last that is stored
    behind = b.gep(b.bitcast(near, row.element.as_pointer()), [number(last)])
    high = row.part(b.bitcast(behind, near.type), inside, last)
    even = ir.Constant(ir.VectorType(number, row.lanes), [n if n < row.lanes else n + 1 for n in range(0, 2 * row.lanes, 2)])
    row.store(b.shuffle_vector(low, high, even))


def _store_part(emitter: Any, panel: Any, to: Any, kept: Any, data: Any, at: Any, inside: Any) -> None:
    row = PanelRow(emitter, panel, to)
    row.store_part(row.part(row.at(data, at), inside), kept)


def _store_halves(emitter: Any, panel: Any, to: Any, also_to: Any, kept: Any, data: Any, at: Any, inside: Any) -> None:
    from llvmlite import ir

    row = PanelRow(emitter, panel, to)
    b, number, near = row.builder, ir.IntType(32), row.at(data, at)
    low = row.part(near, inside)
    high = row.part(b.gep(near, [number(1)]), inside, row.lanes)
    for half, target in enumerate((row, PanelRow(emitter, panel, also_to))):
        lanes = ir.Constant(ir.VectorType(number, row.lanes), list(range(half, 2 * row.lanes, 2)))
        target.store_part(b.shuffle_vector(low, high, lanes), kept)


def _form(generate: Callable[..., None]) -> Callable[[], Callable[..., None]]:
    return lambda: generate


set_machine_form(reads_rows_apart, lambda: _reads_rows_apart)
set_machine_form(store_run, _form(_store_run))
set_machine_form(store_two_runs, _form(_store_two_runs))
set_machine_form(store_part, _form(_store_part))
set_machine_form(store_halves, _form(_store_halves))
set_machine_form(store_gathered, _form(_store_gathered))
set_machine_form(store_alternate, _form(_store_alternate))
