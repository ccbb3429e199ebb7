"""A tile of a matrix product with a bias for each row, limited to bounds, before it leaves the registers.

With few terms a product takes hardly more time than another pass over its results would.
"""

from __future__ import annotations

import math
from typing import Any

from ...memory import set_machine_form, twin
from ..products.panel_products import TileCall
from ..products.register_tile import RegisterTile, panel_width
from ..products.tile_fetch import Fetch
from ..products.tile_function import TileFunction


@twin
def multiply_clipped(
    a: Any, a_at: int, a_row: int, panels: Any, panel_at: int, panel_step: int, panel_row: int, out: Any, out_at: int,
    out_row: int, rows: int, inner: int, columns: int, bias: Any, bias_at: int, low: float, high: float, later_at: int,
    later_row: int,
) -> None:  # fmt: skip
    """Compute ``out[i, j] = min(max(sum of a[i, k] * panels[j / width, k, j % width] + bias[i], low), high)``.

    ``i`` below ``rows``, at most TILE_ROWS; ``j`` below ``columns``; ``k`` below ``inner``, in order, and the bias last: the sums
    of ``multiply_panels``.  A sum that is NaN stays NaN.  The rows of ``a`` are ``a_row`` elements apart, those of ``out``
    ``out_row`` elements, panels ``panel_step`` elements, the rows of a panel ``panel_row`` elements.  Contiguous arrays of one
    dtype, float32 or float64; ``*_at``: their first elements.  The bounds are numbers, not NaN.

    Meanwhile fetch the rows of ``a`` that begin at element ``later_at`` and are ``later_row`` elements apart; 0: none.
    """
    width, kind = panel_width(out.itemsize), out.dtype.type
    a, panels, out, bias = a.reshape(-1), panels.reshape(-1), out.reshape(-1), bias.reshape(-1)
    for i in range(int(rows)):
        for j in range(int(columns)):
            total = kind(0)
            for k in range(int(inner)):
                total += (
                    a[int(a_at + i * a_row + k)] * panels[int(panel_at + j // width * panel_step + k * panel_row + j % width)]
                )
            total += bias[int(bias_at + i)]
            if not math.isnan(total):
                total = min(max(total, kind(low)), kind(high))
            out[int(out_at + i * out_row + j)] = total


def _machine(
    emitter: Any, a: Any, a_at: Any, a_row: Any, panels: Any, panel_at: Any, panel_step: Any, panel_row: Any, out: Any,
    out_at: Any, out_row: Any, rows: Any, inner: Any, columns: Any, bias: Any, bias_at: Any, low: Any, high: Any, later_at: Any,
    later_row: Any,
) -> None:  # fmt: skip
    from ....core.tensor_types import ITEMSIZE
    from ...front_end.machine_types import FLOAT32, FLOAT64
    from ...front_end.scalars import cast

    arrays = (a, panels, out, bias)
    assert len({array.type.dtype for array in arrays}) == 1, arrays
    b, word, itemsize = emitter.builder, emitter.word, ITEMSIZE[out.type.dtype]
    number = word(rows).type

    def pointer(array: Any, at: Any) -> Any:
        return b.gep(array.parts[0], [word(at)])

    def bits(bound: Any) -> Any:
        """The bits of a bound, in a word."""
        from llvmlite import ir

        given = cast(b, bound, FLOAT64 if itemsize == 8 else FLOAT32).scalar
        return b.bitcast(given, number) if itemsize == 8 else b.zext(b.bitcast(given, ir.IntType(32)), number)

    of_a = pointer(a, a_at)
    to_bias = b.sdiv(
        b.sub(b.ptrtoint(pointer(bias, bias_at), number), b.ptrtoint(of_a, number)), number(itemsize), flags=["exact"]
    )
    words = [word(a_row), word(panel_step), word(panel_row), word(out_row), word(inner), word(columns)]
    words += [to_bias, bits(low), bits(high), b.sub(word(later_at), word(a_at)), word(later_row)]
    call = _ClippedCall(b, out.parts[0].type.pointee, (of_a, pointer(panels, panel_at), pointer(out, out_at)), words)
    call.emit(word(rows), itemsize)


class _ClippedCall(TileCall):
    """Generator of the loop over the tiles of a group."""

    def _tile(self, rows: int, tile: RegisterTile, column: Any, left: Any) -> Any:
        b, word = self.builder, self.words[0].type
        a_row, panel_step, panel_row, out_row, inner, _, *others = self.words
        function = ClippedFunction(b.module, self.element, tile, rows)
        panel = word(function.panel)
        at = b.add(b.mul(panel_step, b.udiv(column, panel)), b.urem(column, panel))
        a, panels, out = self.pointers
        places = [a, a_row, b.gep(panels, [at]), panel_step, panel_row, b.gep(out, [column]), out_row]
        b.call(function.function(), [*places, inner, left, word(0), *others])
        return b.add(column, word(tile.width))


class _FetchRows(Fetch):
    """Generator of what a tile fetches: rows of the next tile alone."""

    def is_wanted(self, builder: Any) -> Any:
        return builder.icmp_signed("!=", self.later_row, self.word(0))


class ClippedFunction(TileFunction):
    """Generator of the function of a tile: in place of the panels that others fetch it takes the elements from ``a`` to the bias,
    and the bits of the bounds."""

    kind = "clipped_tile"
    fetch_kind = _FetchRows

    def _store(self, builder: Any, value: Any, row: Any, j: int, mask: Any) -> None:
        from llvmlite import ir

        a, to_bias, *bounds = (builder.function.args[n] for n in (0, 10, 11, 12))
        if row not in self._biases:
            at = builder.add(to_bias, self.word(len(self._biases)))
            self._biases[row] = self._splat(builder, builder.load(builder.gep(a, [at])), self.element)
        value = builder.fadd(value, self._biases[row])
        for bound, beyond in zip(bounds, ("<", ">"), strict=True):
            whole = bound if self.bits == 64 else builder.trunc(bound, ir.IntType(32))
            limit = self._splat(builder, builder.bitcast(whole, self.element), self.element)
            # false for NaN
            value = builder.select(builder.fcmp_ordered(beyond, value, limit), limit, value)
        super()._store(builder, value, row, j, mask)

    def _fill(self, function: Any) -> None:
        #: The bias of each row of the result that is stored, in order.
        self._biases: dict[Any, Any] = {}
        super()._fill(function)


set_machine_form(multiply_clipped, lambda: _machine)
