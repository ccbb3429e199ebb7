"""CUDA C of rows in registers: the threads that share a row read it once, and hold the values that later passes use.

A value is held if it is the element of a fold and a later fold or the result depends on it.  Rows of which a thread would hold
more elements than ``LONG`` allows, and rows that are no whole packs, take the passes of ``row_reduce``.  Rows that are not
aligned are loaded and stored element by element; the order of a fold, and so its bits, is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ....declarations.frozen_dataclass import frozen
from ...core.tensor_types import ITEMSIZE, computed_in
from ..loop_nest.expression import APPLY, AXIS, CAST, LOCAL, SIZE, Cell
from ..loop_nest.expression_text import indented
from ..loop_nest.linear_index import Lowered, Table
from ..loop_nest.row_passes import RowFold, Rows
from ..loop_nest.statements import Writer
from .assembly import in_memory
from .cuda_nest import CudaKernel, elements, function, pack_type
from .cuda_text import stored
from .parallel_fold import Fold
from .vector_access import Packed, packed

#: Packs that are loaded before the first of them is used by the pass that stores.
STORED = 2


@frozen
class Holding:
    """A kernel of rows in registers.  ``elements``: of a row, that a thread holds at most.  ``longest``: the longest row.

    ``resident``: the blocks on a multiprocessor for which the kernel is compiled.  ``loaded_bytes``: all packs together that a
    thread loads before a fold uses the first of them.
    """

    elements: int
    resident: int
    loaded_bytes: int
    longest: int


def short_rows(dtype: str) -> Holding:
    """The kernel of rows that need few registers, for a result of ``dtype``: loads at once hide the latency of memory.

    layernorm(gelu(x + b) + r) of rows of 1024 elements on an H200, as shares of the rate of copies: float32 99 % with 32 elements
    of a thread, 94 % with 16; float16 82 % with 16 elements, 73 % with 32 or with blocks for more registers.
    """
    if dtype == "float32":
        return Holding(32, 2, 64, 4096)
    return Holding(16, 4 if computed_in(dtype) == "float32" else 3, 64, 4096)


#: The kernel of longer rows.
LONG = Holding(32, 2, 0, 8192)


@frozen
class HeldRows:
    """A plan whose rows are held: ``held`` is the name of each held value by its cell, ``width`` the elements of a pack."""

    holding: Holding
    lowered: Lowered
    plan: Rows
    held: dict[int, str]
    width: int

    @property
    def packs(self) -> int:
        """The packs that a thread holds."""
        return self.holding.elements // self.width


def held_rows(lowered: Lowered, plan: Rows, dtype: str, holding: Holding) -> HeldRows | None:
    """The plan with rows in registers; None if no packs read them."""
    of_folds = [lowered.cells[f.element] for f in plan.folds]
    roots = of_folds if plan.per_row else [*of_folds, lowered.element]
    used = [lowered.table.reached(lowered.table[root].args, of_folds) for root in roots]
    held = {cell: f"h{k}" for k, cell in enumerate(dict.fromkeys(of_folds)) if any(cell in below for below in used)}
    found = [packed(replace(lowered, element=root)) for root in of_folds]
    widths = [p.width for p in found if p is not None]
    if plan.per_row or not held or not widths or found[0] is None:
        return None
    last = packed(lowered, dtype)
    if last is None:
        return None
    width = min(*widths, last.width)
    return HeldRows(holding, lowered, plan, held, width) if width <= holding.elements else None


class HeldText:
    """The statements of a kernel that holds its rows; ``kept`` axes are outside a row."""

    def __init__(self, kernel: CudaKernel, rows: HeldRows, kept: int, dtype: str) -> None:
        self.kernel, self.rows, self.kept, self.dtype = kernel, rows, kept, dtype
        self.last = kernel.size(rows.lowered.extents[-1])
        self.fits: list[str] = []

    def text(self, folds: Iterable[tuple[RowFold, Fold, str]], result: str, otherwise: list[str]) -> list[str]:
        """Statements that compute all rows: from registers where the rows fit, by the statements ``otherwise`` else."""
        passes, ready = list[str](), dict[int, str]()
        for f, made, struct in folds:
            passes += self._fold(f, made, struct, ready)
        passes += self._store(result, ready)
        width, holding = self.rows.width, self.rows.holding
        return [
            f"if (length > 0 && length <= {holding.longest} && {self.last} % {width} == 0) {{",
            "    const uint32 end = uint32(length);",
            f"    const int shared = log_of_ways<{holding.elements}>(end);",
            "    const unsigned side_by_side = 256u >> shared;  // the rows of a block",
            f"    int fits = is_straight<{width}>({result}, 1);",
            "    // each thread tests some of the rows that the block computes",
            "    for (int64 k = threadIdx.x;; k += 256) {",
            "        const int64 turn = k >> (8 - shared);",
            "        const int64 row = (turn * gridDim.x + blockIdx.x) * side_by_side + (k & (side_by_side - 1u));",
            "        if (row >= rows) break;",
            *indented(self.fits, 2),
            "    }",
            "    auto all_rows = [&](auto kind) {",
            "        constexpr bool straight = decltype(kind)::value;",
            "        for (int64 base = blockIdx.x * side_by_side; base < rows;) {",
            "            // what depends on `ways` is computed for each row: else it takes the registers of the row",
            "            const int log = opaque(shared), ways = 1 << log, way = threadIdx.x & (ways - 1);",
            "            // a thread without a row computes the first row of the block again, and does not store it",
            "            const int64 own = base + (threadIdx.x >> log);",
            "            const bool mine = own < rows;",
            "            const int64 row = mine ? own : base;",
            *indented(passes, 3),
            "            __syncthreads();",
            "            base += gridDim.x * (256u >> opaque(shared));",
            "        }",
            "    };",
            "    if (__syncthreads_and(fits)) all_rows(Known<true>()); else all_rows(Known<false>());",
            "} else {",
            *indented(otherwise),
            "}",
        ]

    def _fold(self, f: RowFold, made: Fold, struct: str, ready: dict[int, str]) -> list[str]:
        lowered, width, packs = self.rows.lowered, self.rows.width, self.rows.packs
        cell, kind = lowered.cells[f.element], computed_in(f.dtype)
        dtype = computed_in(lowered.table[cell].dtype)
        pack = f"Pack<{dtype}, {width}>"
        name = self.rows.held.get(cell, "")
        lines = [f"{kind} {f.name};"]
        inside = [f"OfThread<{struct}, {packs}> held;"]
        step = "held.take(p, here < end, {}, here);"
        if cell in ready:
            inside += self._in_groups({}, [step.format(f"{name}[p]")])
        else:
            of_pack, loads, call = self._function(cell, ready, None)
            filling = [f"const {pack} each = {call};", step.format("each")]
            if cell in self.rows.held:
                lines.append(f"{pack} {name}[{packs}];")
                filling.append(f"{name}[p] = each;")
                ready[cell] = name
            inside += [*of_pack, *self._in_groups(loads, filling, self._together(loads), True)]
        inside += [
            f"const {struct}::State s = join_all<{struct}>(held.state, ways);",
            f"{f.name} = {kind}({made.value});",
        ]
        return [*lines, "{", *indented(inside), "}"]

    def _store(self, result: str, ready: dict[int, str]) -> list[str]:
        lines, loads, call = self._function(self.rows.lowered.element, ready, self.dtype)
        # no load is behind a branch
        each = [f"const auto each = {call};", "if (mine && here < end) store_row(of_row + here, each, straight);"]
        lines.append(f"{in_memory(self.dtype)}* const of_row = address_of({result}, row * length);")
        return ["{", *indented([*lines, *self._in_groups(loads, each, STORED)]), "}"]

    def _together(self, loads: dict[str, int]) -> int:
        """The number of packs of each load that are loaded together."""
        return max(1, self.rows.holding.loaded_bytes // max(sum(loads.values()), 1))

    def _in_groups(self, loads: Iterable[str], each: list[str], most: int = 1, is_first: bool = False) -> list[str]:
        """Loops over the packs: those of a group, of at most ``most``, are loaded, and then ``each`` pack is computed.

        ``is_first``: whether all loads of a group are issued before the first of its packs is computed.
        """
        here = f"const uint32 here = (p * ways + way) * {self.rows.width}, at = here < end ? here : 0;"
        group = min(most, self.rows.packs)
        over = ["#pragma unroll", f"for (int p = first; p < first + {group}; ++p) {{", f"    {here}"]
        return [
            "#pragma unroll",
            f"for (int first = 0; first < {self.rows.packs}; first += {group}) {{",
            *(f"    decltype({load}(0)) raw_{load}[{group}];" for load in loads),
            *indented([*over, *(f"    raw_{load}[p - first] = {load}(at);" for load in loads), "}"] if loads else []),
            *([f"    load_first({', '.join(f'raw_{load}' for load in loads)});"] if is_first and loads and group > 1 else []),
            *indented([*over, *indented(each), "}"]),
            "}",
        ]

    def _function(self, cell: int, ready: dict[int, str], dtype: str | None) -> tuple[list[str], dict[str, int], str]:
        """The functions of a pack of a cell, its loads with the bytes of each, and the call of its computation.

        ``ready`` cells are held.
        """
        lowered = _with_held(self.rows.lowered, cell, ready, len(self.rows.lowered.extents))
        packs = packed(lowered, dtype, self.rows.width)
        assert packs is not None
        depth, kernel, width, table = len(lowered.extents), self.kernel, self.rows.width, self.rows.lowered.table
        used = [(number, name) for number, name in ready.items() if number in table.reached(table[cell].args, ready)]
        given = [f"const {computed_in(table[number].dtype)} {name} = all_{name}.at[i{depth}];" for number, name in used]
        template = None if dtype is None else stored("{0}", dtype)
        apart = kernel.unravel_index("at", lowered.extents[self.kept :], self.kept)
        of_row = kernel.unravel_index("row", lowered.extents[: self.kept])
        made = elements(kernel, lowered, self.kept, packs, template, is_straight=True, given=given)
        self.fits += ["{", *indented([*of_row, *function("from", "bool", [*apart, *made.fits]), "fits &= from(0);"]), "}"]
        loads, lines = self._loads(packs, depth, apart)
        made = elements(kernel, lowered, self.kept, _loaded(packs, loads, depth), template, is_straight=True, given=given)
        more = [f", const Pack<{computed_in(table[number].dtype)}, {width}>& all_{name}" for number, name in used]
        more += [f", const {pack_type(load.dtype, width, True)}& {name}" for load, name in loads.items()]
        kind = pack_type(made.dtype if dtype is None else dtype, width, dtype is not None)
        lines = [*of_row, *made.outer, *made.rows, *lines, *function("pack", kind, [*apart, *made.pack], "".join(more))]
        names = {f"load_{name}": ITEMSIZE[load.dtype] * width for load, name in loads.items()}
        given_to = [*(f", {name}[p]" for _, name in used), *(f", raw_{name}[p - first]" for name in names)]
        return lines, names, f"pack(at{''.join(given_to)})"

    def _loads(self, packs: Packed, depth: int, apart: list[str]) -> tuple[dict[Cell, str], list[str]]:
        """A name for each load of packs, and the functions that load them."""
        names, lines = dict[Cell, str](), list[str]()
        for cell in dict.fromkeys(packs.loads):
            if self.rows.holding.loaded_bytes and not any(k < self.kept for k in packs.table.axes(cell.args[:1])):
                continue  # all rows read these packs: caches have them, and registers are left to other loads
            names[cell] = f"w{len(names)}"
            writer = Writer(packs.table, depth + 1, self.kernel.context)
            offset, distance = (writer.value(a, floor=depth) for a in cell.args)
            body = [line for region in writer.regions for line in region]
            kind, array = pack_type(cell.dtype, packs.width, True), self.kernel.array(cell.what)
            load = f"return row_of_packs<{packs.width}>({array} + {offset}, {distance}, straight);"
            if len(apart) == 1:  # the offset is linear in the position in the row
                lines += function(f"from_{names[cell]}", "int64", [*apart, *body, f"return {offset};"])
                lines.append(
                    f"const {in_memory(cell.dtype)}* const row_{names[cell]} = address_of({array}, from_{names[cell]}(0));"
                )
                load = f"if (straight) return load_pack<{in_memory(cell.dtype)}, {packs.width}>(row_{names[cell]} + at);\n{load}"
            lines += function(f"load_{names[cell]}", kind, [*apart, *body, *load.split("\n")])
        return names, lines


def _loaded(packs: Packed, names: dict[Cell, str], depth: int) -> Packed:
    """Packs whose loads are the locals ``names``."""
    table = Table(packs.table.scalars, packs.table.local_level)
    innermost = table.put(Cell(AXIS, "int64", (), depth - 1))
    new: list[int] = []
    for cell in packs.table.table:
        if cell in names:
            new.append(table.put(Cell(LOCAL, cell.dtype, (innermost,), names[cell])))
        else:
            new.append(table.put(cell.with_args(tuple(new[a] for a in cell.args))))
    return Packed(table, new[packs.element], packs.width)


def _with_held(lowered: Lowered, root: int, ready: dict[int, str], depth: int) -> Lowered:
    """A nest of the cell ``root`` in which held cells are locals that are known to each element."""
    table = Table(lowered.table.scalars, lowered.table.local_level)
    innermost = table.put(Cell(AXIS, "int64", (), depth - 1))
    new: list[int] = []
    for number, cell in enumerate(lowered.table.table):
        if number in ready and number != root:
            new.append(table.put(Cell(LOCAL, cell.dtype, (innermost,), ready[number])))
        else:
            copied = cell.with_args(tuple(new[a] for a in cell.args))
            new.append(table.put(_by_reciprocal(table, copied)))
    return replace(lowered, table=table, element=new[root])


def _by_reciprocal(table: Table, cell: Cell) -> Cell:
    """A product with the reciprocal of a count, for a cell that rounds a quotient of float64 to a narrower dtype; else the cell.

    All folds of a row share the reciprocal, and it is computed while the row is loaded; a quotient is computed after the fold.
    The product is within two units in the last place of float64, and is rounded to 24 bits or fewer.
    """
    if cell.kind != CAST or computed_in(cell.dtype) != "float32":
        return cell
    quotient = table[cell.args[0]]
    if quotient.kind != APPLY or quotient.what != "divide" or quotient.dtype != "float64":
        return cell
    total, count = quotient.args
    if table[count].kind != CAST or table[table[count].args[0]].kind != SIZE:
        return cell
    reciprocal = table.apply("divide", table.literal(1.0, "float64"), count)
    return cell.with_args((table.apply("multiply", total, reciprocal),))
