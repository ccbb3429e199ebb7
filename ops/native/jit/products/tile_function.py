"""A tile of a matrix product in vector registers: a few rows times a group of columns, summed along the inner axis.

The sums of a tile stay in registers; each step along the inner axis reads a row of the panels, and one element of each row of the
other matrix.  The scheme is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ...code_parts import Part, parts_of
from ...vector_registers import registers_name
from .register_tile import RegisterTile, panel_width, register_tile, tiles_of_columns
from .tile_fetch import Fetch, function_type

#: A tile of fewer rows reads panels as fast as caches deliver them: it fetches nothing, which would take longer than it saves.
FETCH_ROWS = 3
#: Steps along the inner axis in one iteration, and the most sums for which this is so.  With AVX2 a step of 12 multiply-adds has
#: 10 other instructions then, and 24 without, which take as long as the multiply-adds.  AVX-512 hides them.
_STEPS, _FEW_SUMS = 4, 12


class TileFunction:
    """Generator of the LLVM function of a tile of ``rows`` rows; ``kind``: the first part of its name."""

    kind = "product_tile"
    #: Whether kernels share the functions of a number of rows (see ``code_parts``): all tiles of a ``TileCall``.
    shared = True
    #: Whether panels and rows may be fetched, and the generator of that.
    fetches, fetch_kind = True, Fetch
    #: The steps along the inner axis in one iteration of a tile of few sums.
    most_steps = _STEPS

    def __init__(self, module: Any, element: Any, tile: RegisterTile, rows: int) -> None:
        from llvmlite import ir

        self.module, self.element, self.tile, self.rows = module, element, tile, rows
        self.word = ir.IntType(64)
        self.vector = ir.VectorType(element, tile.lanes)
        self.bits = 64 if element == ir.DoubleType() else 32
        self.panel = panel_width(self.bits // 8)
        self.name = f"relayvm.{self.kind}.f{self.bits}.{rows}.{tile.vectors}{'.part' * tile.is_part}"

    def function(self) -> Any:
        """The function: pointers and sizes in the order of ``multiply_panels``, without ``rows``."""
        from llvmlite import ir

        if self.name in self.module.globals:
            return self.module.globals[self.name]
        pointer, word = self.element.as_pointer(), self.word
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, pointer, word, word, pointer, *[word] * 9])
        function, parts = ir.Function(self.module, kind, self.name), parts_of(self.module)
        if self.shared and parts is not None:
            parts.setdefault(*self._part())
            return function
        function.linkage = "internal"
        function.attributes.add("noinline")
        function.attributes.add("optsize")  # no loop is unrolled
        self._fill(function)
        return function

    def _part(self) -> tuple[str, Part]:
        """The part with the functions of this number of rows, of all widths, and its name."""
        own, element, rows, itemsize = type(self), self.element, self.rows, self.bits // 8

        def functions(module: Any) -> list[Any]:
            return [own(module, element, tile, rows).function() for tile in tiles_of_columns(register_tile(itemsize, rows))]

        name = f"{self.kind} {self.bits} {rows} {registers_name()}"
        return name, Part(name, own.__module__, functions)

    @property
    def steps(self) -> int:
        """The steps along the inner axis in one iteration."""
        is_short = self.tile.lanes < self.panel and self.rows * self.tile.vectors <= _FEW_SUMS
        return self.most_steps if is_short else 1

    @property
    def repeats(self) -> bool:
        """Whether the function computes as many tiles as the columns fill; otherwise one."""
        return False

    def _fill(self, function: Any) -> None:
        from llvmlite import ir

        builder = ir.IRBuilder(function.append_basic_block("entry"))
        self.emit_tile(builder, function.args)
        builder.ret_void()

    def emit_tile(self, b: Any, arguments: Sequence[Any]) -> None:
        """Emit a tile: the arguments are those of the function."""
        a, a_row, panels, panel_step, panel_row, out, out_row, inner, columns, add, *fetched = arguments
        firsts = [self.word(j * self.tile.lanes) for j in range(self.tile.vectors)]
        masks = [self._mask(b, b.sub(columns, first)) if self.tile.is_part else None for first in firsts]
        rows_of_out = [b.gep(out, [b.mul(out_row, self.word(i))]) for i in range(self.rows)]
        self._fetch_results(b, rows_of_out)
        rows_of_a = [b.gep(a, [b.mul(a_row, self.word(i))]) for i in range(self.rows)]
        across = [self._in_panels(b, panels, panel_step, j) for j in range(self.tile.vectors)]
        places = [(row, j, masks[j]) for row in rows_of_out for j in range(self.tile.vectors)]
        state = [self.word(0), *self._former(b, add, places)]
        operands = rows_of_a, list(zip(across, masks, strict=True)), panel_row, inner
        run = functools.partial(self._run, b, operands)
        if self.fetches and self.rows >= FETCH_ROWS:
            fetch = self.fetch_kind(self, a, across[:: self.panel // self.tile.lanes], panel_row, *fetched)
            wanted, first = fetch.is_wanted(b), state
            if fetch.in_chunks:
                chunks = functools.partial(self._chunks, b, operands, state, fetch, wanted)
                of_panels = functools.partial(run, first, self.steps, fetch)
                state = chunks() if fetch.of_panels is None else self.choice(b, fetch.of_panels, of_panels, chunks)
            else:
                looped = functools.partial(fetch.loops, b, self.steps, lambda way: run(first, self.steps, way))
                state = self.choice(b, wanted, looped, lambda: run(first, self.steps))
        else:
            state = run(state, self.steps)
        _, *totals = run(state, 1) if self.steps > 1 else state
        for total, (row, j, mask) in zip(totals, places, strict=True):
            self._store(b, total, row, j, mask)

    def _fetch_results(self, builder: Any, rows_of_out: list[Any]) -> None:
        """Ask for the lines of the results, which arrive while the sums are computed.

        A line that begins in one tile and ends in the next is asked for with the next: by its last element.
        """
        for row in rows_of_out:
            for end in range(min(self.panel, self.tile.width), self.tile.width + 1, self.panel):
                self.into_first_cache(builder, builder.gep(row, [self.word(end - 1)]), is_write=1)

    def into_first_cache(self, builder: Any, pointer: Any, is_write: int) -> None:
        """Ask for the line at a pointer; no address faults."""
        from llvmlite import ir

        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        fetch = self.declared("llvm.prefetch.p0", function_type(ir.VoidType(), [byte, flag, flag, flag]))
        # into the first cache, of data
        builder.call(fetch, [builder.bitcast(pointer, byte), flag(is_write), flag(3), flag(1)])

    def _former(self, builder: Any, add: Any, places: list[Any]) -> list[Any]:
        """The vectors at ``places``, or zeros if there is nothing to add."""
        from llvmlite import ir

        zero = ir.Constant(self.vector, [0.0] * self.tile.lanes)

        def loaded() -> list[Any]:
            return [self._load(builder, row, j, mask) for row, j, mask in places]

        return self.choice(builder, builder.icmp_signed("!=", add, self.word(0)), loaded, lambda: [zero] * len(places))

    def choice(
        self, builder: Any, condition: Any, if_true: Callable[[], list[Any]], if_false: Callable[[], list[Any]]
    ) -> list[Any]:
        """The values that one of two branches computes."""
        starts = [builder.append_basic_block(name) for name in ("yes", "no")]
        after = builder.append_basic_block("after")
        builder.cbranch(condition, *starts)
        found: list[tuple[Any, list[Any]]] = []
        for start, values in zip(starts, (if_true, if_false), strict=True):
            builder.position_at_end(start)
            results = values()
            found.append((builder.block, results))
            builder.branch(after)
        builder.position_at_end(after)
        blocks = [block for block, _ in found]
        return [self._join(builder, dict(zip(blocks, pair, strict=True))) for pair in zip(*(r for _, r in found), strict=True)]

    def _chunks(self, b: Any, operands: tuple[Any, ...], first: list[Any], fetch: Fetch, wanted: Any) -> list[Any]:
        """The loop over chunks of steps, with each of which rows are fetched if that is ``wanted``: the state after it."""
        *others, inner = operands
        whole = b.and_(inner, self.word(-self.steps)) if self.steps > 1 else inner
        length = b.select(wanted, self.word(self.panel), whole)
        before, head, ask, go, after = b.block, *(b.append_basic_block(name) for name in ("chunk", "ask", "go", "chunks.end"))
        b.cbranch(b.icmp_signed(">", whole, self.word(0)), head, after)
        b.position_at_end(head)
        nodes = [self._join(b, {before: value}) for value in first]
        b.cbranch(wanted, ask, go)
        b.position_at_end(ask)
        fetch.emit_rows(b, nodes[0])
        b.branch(go)
        b.position_at_end(go)
        end = b.add(nodes[0], length)
        end = b.select(b.icmp_signed("<", end, whole), end, whole)
        results = self._run(b, (*others, end), nodes, self.steps, is_sure=True)
        for node, value in zip(nodes, results, strict=True):
            node.add_incoming(value, b.block)
        last = b.block
        b.cbranch(b.icmp_signed("<", results[0], whole), head, after)
        b.position_at_end(after)
        return [self._join(b, {before: value, last: result}) for value, result in zip(first, results, strict=True)]

    def _run(
        self,
        builder: Any,
        operands: tuple[Any, ...],
        state: list[Any],
        steps: int,
        fetch: Fetch | None = None,
        is_sure: bool = False,
    ) -> list[Any]:
        """A loop of iterations of ``steps`` steps as long as they fit: the step after them, and the sums.

        ``state``: the first step, and the sums before it.  ``is_sure``: the steps to ``inner`` are one iteration or
        more, and whole ones.
        """
        *_, inner = operands
        before, loop, after = builder.block, builder.append_basic_block("steps"), builder.append_basic_block("after")
        if is_sure:
            builder.branch(loop)
        else:
            fits = builder.icmp_signed("<=", builder.add(state[0], self.word(steps)), inner)
            builder.cbranch(fits, loop, after)
        builder.position_at_end(loop)
        k, *sums = nodes = [self._join(builder, {before: value}) for value in state]
        sums, others = self.iteration(builder, operands, before, k, steps, sums)
        if fetch is not None:
            fetch.emit(builder, k, steps)
        following = builder.add(k, self.word(steps))
        results = [following, *sums]
        for node, value in [*zip(nodes, results, strict=True), *others]:
            node.add_incoming(value, loop)
        more = following if is_sure or steps == 1 else builder.add(following, self.word(steps - 1))
        builder.cbranch(builder.icmp_signed("<", more, inner), loop, after)
        builder.position_at_end(after)
        if is_sure:
            return results
        pairs = zip(state, results, strict=True)
        return [self._join(builder, {before: value, loop: result}) for value, result in pairs]

    def iteration(
        self, builder: Any, operands: tuple[Any, ...], before: Any, k: Any, steps: int, sums: list[Any]
    ) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Emit ``steps`` steps from ``k`` on: the sums after them, and other nodes of the loop with their next values.

        ``before``: the block before the loop, which begins at step 0 if an iteration has several steps.
        """
        rows_of_a, across, panel_row, _ = operands
        for step in range(steps):
            now = builder.add(k, self.word(step))
            sums = self._step(builder, rows_of_a, across, now, self.row_at(builder, now, panel_row), sums)
        return sums, []

    def row_at(self, builder: Any, k: Any, panel_row: Any) -> Any:
        """The row ``k`` of panels: its elements from the first row."""
        return builder.mul(k, panel_row)

    def _in_panels(self, builder: Any, panels: Any, step: Any, j: int) -> Any:
        """The pointer to vector ``j`` of the first row of the panels."""
        first = j * self.tile.lanes
        at = builder.add(builder.mul(step, self.word(first // self.panel)), self.word(first % self.panel))
        return builder.gep(panels, [at])

    def _step(self, builder: Any, rows_of_a: list[Any], across: list[Any], k: Any, at: Any, sums: list[Any]) -> list[Any]:
        """One step along the inner axis: the sums after it.

        ``across``: pointers to vectors of panels, and their masks; ``at``: the row of the panels, from their first.
        """
        kind = function_type(self.vector, [self.vector] * 3)
        fma = self.declared(f"llvm.fma.{self._suffix}", kind)

        def of_panels(j: int) -> Any:
            pointer, mask = across[j]
            return self._load(builder, builder.gep(pointer, [at]), 0, mask)

        def of_row(i: int) -> Any:
            return self._splat(builder, builder.load(builder.gep(rows_of_a[i], [k])), self.element)

        after, vectors = list(sums), self.tile.vectors
        down = [of_row(i) for i in range(self.rows)]
        if self.rows < vectors:
            factors = ((i, j, down[i], vector) for j in range(vectors) for vector in [of_panels(j)] for i in range(self.rows))
        else:
            row = [of_panels(j) for j in range(vectors)]
            factors = ((i, j, down[i], row[j]) for i in range(self.rows) for j in range(vectors))
        for i, j, factor, vector in factors:
            after[i * vectors + j] = builder.call(fma, [factor, vector, sums[i * vectors + j]])
        return after

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

    def _mask(self, builder: Any, columns: Any) -> Any:
        """The lanes of a vector that are among the columns."""
        from llvmlite import ir

        numbers = ir.Constant(ir.VectorType(self.word, self.tile.lanes), list(range(self.tile.lanes)))
        return builder.icmp_signed("<", numbers, self._splat(builder, columns, self.word))

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

        place, word = self.vector.as_pointer(), ir.IntType(32)
        if what == "load":
            kind = function_type(self.vector, [place, word, mask.type, self.vector])
        else:
            kind = function_type(ir.VoidType(), [self.vector, place, word, mask.type])
        return self.declared(f"llvm.masked.{what}.{self._suffix}.p0", kind)

    def declared(self, name: str, kind: Any) -> Any:
        """The function of LLVM, declared once."""
        from llvmlite import ir

        found = self.module.globals.get(name)
        return ir.Function(self.module, kind, name) if found is None else found
