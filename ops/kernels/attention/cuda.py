"""Attention on CUDA: by tiles of queries and keys, on tensor cores for halves, or by lanes that share the elements of a key.

The choice between tiles and lanes is by sizes.  Queries of one head are ``heads`` rows apart.  ``nn.attention`` has positions
first: its batches are heads, and its batch is 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ....shape_funcs.symbolic.dim import Dim, const, dim
from ....shape_funcs.symbolic.dim_operations import any_, lt, not_, where
from ...codegen.cuda.assembly import DIVISOR, Assembly, Parameter, blocks, divisor, literal, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...core.tensor_types import HALVES, ITEMSIZE, computed_in
from . import decode_cuda, halves_cuda, prefill_cuda
from .decode_cuda import Lanes
from .parts_cuda import Parts, add_join, add_sums, parts_of, workspace
from .prefill_cuda import Tile

#: The blocks that are wanted: four on each multiprocessor of a GPU with 132.
TILES_WANTED = LANES_WANTED = 528
#: The least number of keys of a part for lanes, and the number of which a part has a multiple.
LEAST_KEYS, KEYS_UNIT = 64, 32
#: The number of scores up to which lanes compute any number of queries.  An H200 takes 13 us for the fewest tiles (4 heads of 64
#: elements, 7 queries and keys) and 9 us for each further tile of keys, whose blocks leave most multiprocessors idle.  Lanes read
#: the keys again for each query: 512 bytes a score, at about 5 TB/s from the L2 cache.
FEW_SCORES = 1 << 17
#: The same for halves: a block of tensor cores (see ``halves_cuda``) fills a multiprocessor, and from so many keys of a part on a
#: second kernel that joins parts pays.  A tile is predicted to take 1 us, and 2 us to begin, so lanes pay for fewer scores.
HALVES_WANTED, HALVES_KEYS, FEW_HALVES = 132, 512, 1 << 14


def pays(dtype: str, d: Dim, e: Dim) -> bool:
    """Whether attention by heads of ``d`` and ``e`` elements is faster than batched products around a softmax.

    Times of an H100 for a score of heads of 64 elements, in picoseconds (132 multiprocessors, 1.755 GHz, 3.0 TB/s):

    * float32: 128 products take 4.3 at the peak.  The library's products at 90 % of the peak and four passes over the scores (16
      bytes) take 4.8 + 5.3; one kernel at its predicted 80 % takes 5.4.
    * float16, bfloat16: tensor cores take 0.4 for the products and 2.7 for the passes.  One kernel with tensor cores takes 0.4 to
      1.0 (see ``halves_cuda``), for heads of up to 256 elements.
    * float64: tensor cores of the library, 4.3 + 10.7; the kernel without them 8.6 at the peak.  No gain is certain.

    Heads that are not known, or larger than a tile, are slower: scores are computed once for each 64 columns.
    """
    most = {"float32": prefill_cuda.MOST_DEPTH, **dict.fromkeys(HALVES, halves_cuda.MOST_DEPTH)}.get(dtype, -1)
    return all(known is not None and known <= most for known in (const(d), const(e)))


def attention(call: OpaqueCall) -> CudaSource:
    """The weighted sum of values for every query and head."""
    m, batch, heads, d = call.inputs[0].shape
    n, e = call.inputs[1].shape[0], call.inputs[2].shape[3]
    return _Attention(Assembly(), call, dim(1), m, batch * heads, n, d, e).source()


def batch_attention(call: OpaqueCall) -> CudaSource:
    """The weighted sum of values for every query and head, batch first."""
    batch, m, heads, d = call.inputs[0].shape
    n, e = call.inputs[1].shape[1], call.inputs[2].shape[3]
    return _Attention(Assembly(), call, batch, m, heads, n, d, e, zero_nan=call.attrs.zero_nan, has_bias=False).source()


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
    zero_nan: bool = False
    has_bias: bool = True
    parts: Parts = field(init=False)
    spaces: tuple[Parameter, ...] = ()

    def source(self) -> CudaSource:
        """The program of the call."""
        add_sums(self.assembly, self.call.results[0], zero_nan=self.zero_nan)
        self.assembly.text(DIVISOR)
        dtype = self.call.inputs[0].dtype
        lanes = decode_cuda.lanes_of(dtype, self.d, self.e)
        halves = halves_cuda.tile_of(dtype, self.d, self.e, self.has_bias)
        tile = halves or prefill_cuda.tile_of(dtype, self.d, self.e)
        scores, few = self.rows * self.n, FEW_HALVES if halves else FEW_SCORES
        least_queries = decode_cuda.LEAST_HALVES if halves else decode_cuda.LEAST_QUERIES
        are_few = dim(0) if lanes is None else any_(lt(self.m, least_queries), lt(scores, few))
        bands = (self.m + (tile.rows - 1)) // tile.rows
        slabs = dim(1) if halves else (self.e + (tile.columns - 1)) // tile.columns
        work = self.batch * self.heads * where(are_few, self.m, bands * slabs)
        of_tile = (HALVES_WANTED, HALVES_KEYS) if halves else (TILES_WANTED, tile.keys)
        wanted, least = (where(are_few, a, b) for a, b in zip((LANES_WANTED, LEAST_KEYS), of_tile, strict=True))
        self.parts = parts_of(self.n, work, wanted, least, where(are_few, KEYS_UNIT, tile.keys))
        self.spaces = workspace(self.assembly, self.rows, self.e, self.parts.count, self.call.results[0])
        if lanes is not None:
            self._lanes(lanes, are_few, work * self.parts.count)
        if isinstance(tile, prefill_cuda.Tile):
            self._tiles(tile, not_(are_few), bands, slabs)
        else:
            self._halves(tile, not_(are_few), bands)
        out = self.call.results[0]
        add_join(self.assembly, self.rows, self.e, self.n, self.parts.count, (writes("out", out), *self.spaces), out)
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

    def _texts(self, bias: str) -> dict[str, str]:
        """The texts that both kernels need."""
        dtypes = {"dtype": self.call.inputs[0].dtype, "out": self.call.results[0].dtype}
        scale = literal(self.number, self.call.attrs.scale)
        return {**dtypes, "scale": scale, "bias": bias if self.has_bias else ""}

    def _lanes(self, lanes: Lanes, wanted: Dim, units: Dim) -> None:
        """Add the kernel of lanes, run if ``wanted``."""
        texts = self._texts(decode_cuda.BIAS)
        shape = {"threads": decode_cuda.THREADS, "lanes": lanes.lanes, "keys": lanes.keys}
        shape |= {"key_packs": lanes.key_packs, "value_packs": lanes.value_packs}
        self.assembly.text(decode_cuda.TEXT.substitute(shape, dtype=texts["dtype"]))
        divisors = (divisor("by_queries", self.m, units), divisor("by_parts", self.parts.count, units))
        parameters = (*self._parameters(), *self.spaces, *self._split(units), *divisors, divisor("by_heads", self.heads, units))
        body = decode_cuda.BODY.substitute(texts, load="FULL" if lanes.fills else "WIDE")
        self.assembly.kernel("attention_lanes", decode_cuda.THREADS, parameters, body, decode_cuda.RESIDENT[self.number])
        self.assembly.launch("attention_lanes", where(wanted, blocks(units), 0))

    def _tiles(self, tile: Tile, wanted: Dim, bands: Dim, slabs: Dim) -> None:
        """Add the kernel of tiles, run if ``wanted``."""
        texts = self._texts(prefill_cuda.BIAS)
        shape: dict[str, Any] = {"threads": prefill_cuda.THREADS, "rows": tile.rows, "keys": tile.keys, "depth": tile.depth}
        shape |= {"columns": tile.columns, "slice": tile.part, "line": tile.row}
        shape |= {"whole": str(tile.whole).lower(), "in_flight": tile.in_flight}
        self.assembly.text(prefill_cuda.TEXT.substitute(shape, dtype=texts["dtype"]))
        units = self.batch * self.heads * self.parts.count * slabs * bands
        counts = {"by_bands": bands, "by_slabs": slabs, "by_parts": self.parts.count, "by_heads": self.heads}
        divisors = tuple(divisor(name, count, units) for name, count in counts.items())
        more = (*self._split(units), size("bands", bands), size("slabs", slabs), *divisors)
        body = prefill_cuda.BODY.substitute(texts, unit=16 // ITEMSIZE[texts["dtype"]])
        parameters = (*self._parameters(), *self.spaces, *more)
        self.assembly.kernel("attention_tiles", prefill_cuda.THREADS, parameters, body, prefill_cuda.RESIDENT)
        self.assembly.launch("attention_tiles", where(wanted, blocks(units), 0), shared_bytes=tile.shared_bytes)

    def _halves(self, tile: halves_cuda.Tile, wanted: Dim, bands: Dim) -> None:
        """Add the kernel of tensor cores, run if ``wanted``."""
        texts = self._texts(halves_cuda.BIAS)
        is_raw = not self.has_bias and self.call.attrs.scale > 0
        self.assembly.text(*halves_cuda.text(tile, texts, is_raw))
        units = self.batch * self.heads * self.parts.count * bands
        counts = {"by_bands": bands, "by_parts": self.parts.count, "by_heads": self.heads}
        divisors = tuple(divisor(name, count, units) for name, count in counts.items())
        # scores are in units of the logarithm of 2, and those of parts are not
        natural = f"({texts['scale']})" if is_raw else "float32(0.693147181)"
        body = halves_cuda.BODY.substitute(texts, unit=natural)
        parameters = (*self._parameters(), *self.spaces, *self._split(units), size("bands", bands), *divisors)
        self.assembly.kernel("attention_halves", tile.threads, parameters, body, tile.resident)
        self.assembly.launch("attention_halves", where(wanted, blocks(units), 0), shared_bytes=tile.shared_bytes)

    def _split(self, units: Dim) -> tuple[Parameter, ...]:
        """The sizes of the parts of the keys, and the number of units of work."""
        return size("units", units), size("parts", self.parts.count), size("part_keys", self.parts.keys)
