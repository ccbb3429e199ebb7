"""Attention on CUDA: by tiles of queries and keys, or by lanes that share the elements of a key; the choice is by sizes.

Queries of one head are ``heads`` rows apart.  ``nn.attention`` has positions first: its batches are heads, and its batch is 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....shape_funcs.symbolic.dim import Dim, const, dim, lt, not_, where
from ...codegen.cuda.assembly import DIVISOR, Assembly, Parameter, blocks, divisor, literal, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...core.tensor_types import ITEMSIZE, computed_in
from . import prefill_cuda
from .parts_cuda import Parts, add_join, add_sums, parts_of, workspace

#: The blocks that are wanted: a GPU of 132 multiprocessors has five tiles on each.
TILES_WANTED = 660


def attention(call: OpaqueCall) -> CudaSource:
    """The weighted sum of values for every query and head."""
    m, batch, heads, d = call.inputs[0].shape
    n, e = call.inputs[1].shape[0], call.inputs[2].shape[3]
    return _Attention(Assembly(), call, dim(1), m, batch * heads, n, d, e, has_bias=True).source()


def batch_attention(call: OpaqueCall) -> CudaSource:
    """The weighted sum of values for every query and head, batch first."""
    batch, m, heads, d = call.inputs[0].shape
    n, e = call.inputs[1].shape[1], call.inputs[2].shape[3]
    return _Attention(Assembly(), call, batch, m, heads, n, d, e, has_bias=False).source()


@dataclass
class _Attention:
    assembly: Assembly
    call: OpaqueCall
    batch: Dim
    m: Dim
    heads: Dim
    n: Dim
    d: Dim
    e: Dim
    has_bias: bool

    def source(self) -> CudaSource:
        """The program of the call."""
        add_sums(self.assembly, self.call.results[0])
        self.assembly.text(DIVISOR)
        self._tiles(dim(1))
        return self.assembly.source()

    @property
    def number(self) -> str:
        """The dtype that is computed in."""
        return computed_in(self.call.inputs[0].dtype)

    @property
    def rows(self) -> Dim:
        """Queries of all heads."""
        return self.batch * self.m * self.heads

    def _parameters(self) -> tuple[Parameter, ...]:
        names = ("query", "key", "value", "bias")
        tensors = (reads(name, tensor) for name, tensor in zip(names, self.call.inputs, strict=False))
        sizes = (size(name, getattr(self, name)) for name in ("m", "heads", "n", "d", "e"))
        return (*tensors, writes("out", self.call.results[0]), *sizes, size("all_rows", self.rows))

    def _tiles(self, wanted: Dim) -> None:
        """Add the kernel of tiles, run if ``wanted``."""
        tile, dtype = prefill_cuda.tile_of(self.number, self.d, self.e), self.call.inputs[0].dtype
        pairs = self.batch * self.heads
        bands, slabs = (self.m + (tile.rows - 1)) // tile.rows, (self.e + (tile.columns - 1)) // tile.columns
        parts = parts_of(self.n, pairs * bands * slabs, TILES_WANTED, 2 * tile.keys, tile.keys)
        rooms = workspace(self.assembly, where(wanted, self.rows, 0), self.e, parts.count, self.call.results[0])
        units = pairs * parts.count * slabs * bands
        texts = {
            "dtype": dtype,
            "out": self.call.results[0].dtype,
            "unit": 16 // ITEMSIZE[dtype],
            "scale": literal(self.number, self.call.attrs.scale),
            "bias": prefill_cuda.BIAS if self.has_bias else "",
        }
        shape = {"threads": prefill_cuda.THREADS, "rows": tile.rows, "keys": tile.keys, "depth": tile.depth}
        shape |= {"columns": tile.columns, "slice": tile.part, "line": tile.row}
        shape |= {"whole": str(tile.whole).lower(), "in_flight": tile.in_flight}
        self.assembly.text(prefill_cuda.TEXT.substitute(shape, dtype=dtype))
        sizes = (*(size(k, v) for k, v in (("units", units), ("bands", bands), ("slabs", slabs), ("parts", parts.count))),
                 size("part_keys", parts.keys))  # fmt: skip
        divisors = (divisor("by_bands", bands, units), divisor("by_slabs", slabs, units), divisor("by_parts", parts.count, units),
                    divisor("by_heads", self.heads, units))  # fmt: skip
        self.assembly.kernel(
            "attention_tiles", prefill_cuda.THREADS, (*self._parameters(), *rooms, *sizes, *divisors),
            prefill_cuda.BODY.substitute(texts), prefill_cuda.RESIDENT,
        )  # fmt: skip
        self.assembly.launch("attention_tiles", where(wanted, blocks(units), 0), shared_bytes=tile.shared_bytes)
        joined = where(wanted, self.rows, 0)
        add_join(self.assembly, joined, self.e, self.n, parts.count, (writes("out", self.call.results[0]), *rooms), self.call.results[0])
