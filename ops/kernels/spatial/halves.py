"""Elements of planes of halves as float32: some at a time, which stay in the caches."""

from __future__ import annotations

from ...native.memory import Array, generic
from ...native.static_values import static
from ...native.vector_registers import vector_bytes
from ...native.vectors import load, store


@generic
def widen(halves: Array, at: int, count: int, wide: Array, to: int) -> None:
    """Store ``count`` halves from ``at`` on as float32, from ``to`` on."""
    lanes = static(vector_bytes() // wide.itemsize)
    whole = count // lanes * lanes
    for i in range(0, whole, lanes):
        store(wide, to + i, load(halves, at + i, lanes))
    for i in range(whole, count):
        wide[to + i] = halves[at + i]
