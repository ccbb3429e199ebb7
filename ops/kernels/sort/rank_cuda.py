"""Sort of a few short rows by ranks in CUDA C: an entry goes to the place that is the number of entries in front of it.

A block ranks OWN entries: each warp compares them, one to a lane, with its part of all entries of the row.  So many blocks share
a row, and a sort takes one kernel.  The number of comparisons is the square of the length: a radix sort passes over a long row
several times, and a block that sorts a row alone leaves the rest of the GPU idle.
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import Dim
from ....shape_funcs.symbolic.dim_operations import all_, le, min_, where
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, divisor, size
from .order_cuda import Order, in_braces

#: Threads of a block, and the entries that it ranks.
THREADS, OWN = 512, 32
#: The most blocks: for rows that else a block sorts alone one for each multiprocessor of an H100, for longer rows as many as it
#: has room for.  The most comparisons, which take 30 µs on an H100, measured; a radix sort of 16,000 elements takes 80, and the
#: selection of 100 from 11,500 takes 40.
TILE_BLOCKS, MOST_BLOCKS, MOST_COMPARISONS = 128, 512, 2**27
#: A bound of the length, below which its square cannot overflow.
_LONGEST = 2**14

# Keys decide, and indices where keys are equal: elements in front of an own element are less or equal, those behind it are less.
_RANKS = Template("""
  const int OWN = $OWN, AT_ONCE = 4, TURN = AT_ONCE * $THREADS, EACH = TURN / ($THREADS / OWN);
  const Key MOST = ~Key(0);
  __shared__ __align__(16) Key keys[TURN];
  __shared__ int ranks[OWN];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  for (int64 work = blockIdx.x; work < rows * groups; work += gridDim.x) {
    const int64 row = by_groups.quotient(work), first = (work - row * groups) * OWN, own = first + lane;
    const Entry mine = own < length ? order.entry(row, own) : LAST;
    const Key key = key_in(mine);
    int rank = 0;
    if (threadIdx.x < OWN) ranks[threadIdx.x] = 0;
    for (int64 begin = 0; begin < length; begin += TURN) {
      Key some[AT_ONCE];
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) {
        int64 at = begin + k * $THREADS + int(threadIdx.x);
        some[k] = at < length ? key_in(order.entry(row, at)) : MOST;
      }
      bool any = false;
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) any |= some[k] != MOST;
#pragma unroll
      for (int k = 0; k < AT_ONCE; ++k) keys[k * $THREADS + threadIdx.x] = some[k];
      if (!__syncthreads_or(any)) {  // such as behind the valid boxes of an image: all are MOST
        int64 lower = own - begin < TURN ? own - begin : TURN;
        if (warp == 0 && lower > 0 && key == MOST) rank += int(lower);
        continue;
      }
      const Key* part = keys + warp * EACH;
      const int64 from = begin + warp * EACH;
      if (from + EACH <= first) {
#pragma unroll 16
        for (int k = 0; k < EACH; ++k) rank += part[k] <= key ? 1 : 0;
      } else if (from >= first + OWN) {
#pragma unroll 16
        for (int k = 0; k < EACH; ++k) rank += part[k] < key ? 1 : 0;
      } else {
        for (int k = 0; k < EACH; ++k) rank += part[k] < key || (part[k] == key && from + k < own) ? 1 : 0;
      }
      __syncthreads();
    }
    if (rank != 0) atomicAdd(&ranks[lane], rank);
    __syncthreads();
    if (warp == 0 && own < length && ranks[lane] < kept) order.put(row, ranks[lane], mine);
    __syncthreads();
  }
""").substitute(OWN=OWN, THREADS=THREADS)


def is_ranked(order: Order, is_long: Dim) -> Dim:
    """Whether the rows are so few and short that ranks take less time; ``is_long``: a block cannot sort a row alone."""
    length, rows = min_(order.length, _LONGEST), min_(order.rows, MOST_BLOCKS)
    few_blocks = le(order.rows * _groups(order), where(is_long, MOST_BLOCKS, TILE_BLOCKS))
    return all_(few_blocks, le(order.length, _LONGEST), le(rows * length * length, MOST_COMPARISONS))


def _groups(order: Order) -> Dim:
    """The number of blocks for a row."""
    return (order.length + (OWN - 1)) // OWN


def add_ranks(assembly: Assembly, order: Order, begin: str, own: tuple[Parameter, ...], used: Dim) -> None:
    """Add the kernel that sorts by ranks and its launch, which runs where ``used``.

    ``begin``: the text that makes ``order`` from the parameters ``own``, the fields of the order and its sizes.
    """
    groups = _groups(order)
    sizes = size("groups", groups), divisor("by_groups", groups, order.rows * groups)
    assembly.kernel("sort_by_ranks", THREADS, (*own, *sizes), begin + in_braces(_RANKS))
    assembly.launch("sort_by_ranks", where(used, blocks(order.rows * groups), 0))
