"""Fill the empty rows of a sparse tensor on CUDA.

Indices in the order of their rows, as they mostly are, need no counting: a binary search finds the values of each row, and each
value moves by the number of empty rows before its own.  For any other order, one thread counts and places the values, since
values of one row keep their order.
"""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import dim
from ....shape_funcs.symbolic.dim_operations import max_
from ...codegen.cuda.assembly import Assembly, Parameter, blocks, element, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, Data, Fault, OpaqueCall, Site
from ...native.status import INDEX_OUT_OF_RANGE

_THREADS, _SCAN_THREADS = 256, 1024

# state[0]: whether the values are not in the order of their rows; state[1]: whether a row is out of range
_BEGIN = "  if (threadIdx.x < 2) state[threadIdx.x] = 0;"

_EACH = Template("""
  int64 step = gridDim.x * int64($threads), mine = blockIdx.x * int64($threads) + threadIdx.x;""").substitute(threads=_THREADS)

_CHECK = Template("""$each
  for (int64 at = mine; at < count; at += step) {
    int64 row = int64(index_at(indices, at * coordinates));
    if (row < 0 || row >= rows) {
      state[1] = 1;
      fail(fault, $status, site);
    } else if (at > 0 && int64(index_at(indices, (at - 1) * coordinates)) > row) {
      state[0] = 1;
    }
  }""").substitute(each=_EACH, status=INDEX_OUT_OF_RANGE)

# places: the number of values of each row; firsts: the number of values before the row
_COUNT = (
    _EACH
    + """
  if (state[1]) return;
  if (state[0]) {
    if (mine != 0) return;
    for (int64 row = 0; row < rows; ++row) places[row] = 0;
    for (int64 at = 0; at < count; ++at) ++places[int64(index_at(indices, at * coordinates))];
    return;
  }
  auto values_before = [&](int64 row) {
    int64 low = 0, high = count;
    while (low < high) {
      int64 middle = (low + high) / 2;
      if (int64(index_at(indices, middle * coordinates)) < row) low = middle + 1; else high = middle;
    }
    return low;
  };
  for (int64 row = mine; row < rows; row += step) {
    firsts[row] = values_before(row);
    places[row] = values_before(row + 1) - firsts[row];
  }"""
)

# places: where the values of each row begin in the result
_ADD_UP = """
  int64 before = 0;
  for (int64 start = 0; start < rows && !state[1]; start += blockDim.x) {
    int64 row = start + threadIdx.x, number = row < rows ? places[row] : 0, all;
    int64 room = row < rows ? (number > 0 ? number : 1) : 0;
    int64 place = before + block_scan(room, Add(), all) - room;
    before += all;
    if (row >= rows) continue;
    places[row] = place;
    is_empty[row] = number == 0;
    if (number > 0) continue;
    new_values[place] = default_at(fill, 0);
    for (int64 k = 0; k < coordinates; ++k) new_indices[place * coordinates + k] = k == 0 ? row : 0;
  }
  if (threadIdx.x == 0) sizes[0] = before;"""

_PLACE = (
    _EACH
    + """
  if (state[1] || (state[0] && mine != 0)) return;
  for (int64 at = mine; at < count; at += state[0] ? 1 : step) {
    int64 row = int64(index_at(indices, at * coordinates));
    int64 place = state[0] ? places[row]++ : places[row] + at - firsts[row];
    new_values[place] = value_at(values, at);
    for (int64 k = 0; k < coordinates; ++k) {
      new_indices[place * coordinates + k] = int64(index_at(indices, at * coordinates + k));
    }
  }"""
)


def fill_empty_rows(call: OpaqueCall) -> CudaSource:
    """The values in the order of their rows, and the default in the first column of each row without a value."""
    indices, values, _, default = call.inputs
    new_indices, new_values, is_empty = call.results
    assert call.counts is not None, f"{call.name} reports no size"
    assembly, rows = Assembly(), is_empty.shape[0]
    for name, tensor in (("index_at", indices), ("value_at", values), ("default_at", default)):
        assembly.text(element(name, tensor))
    parameters = (
        *(reads(name, x) for name, x in (("indices", indices), ("values", values), ("fill", default))),
        *(writes(name, x) for name, x in (("new_indices", new_indices), ("new_values", new_values), ("is_empty", is_empty))),
        Parameter("int64*", "sizes", Data(call.counts)),
        Parameter("int64*", "places", assembly.scratch(rows * 8)),
        Parameter("int64*", "firsts", assembly.scratch(rows * 8)),
        Parameter("int64*", "state", assembly.scratch(dim(16))),
        size("count", indices.shape[0]),
        size("coordinates", indices.shape[1]),
        size("rows", rows),
        Parameter("void*", "fault", Fault()),
        Parameter("int64", "site", Site()),
    )
    count = indices.shape[0]
    for name, threads, body, grid in (
        ("begin", 32, _BEGIN, dim(1)),
        ("check", _THREADS, _CHECK, blocks(count, _THREADS)),
        ("count", _THREADS, _COUNT, blocks(max_(rows, 1), _THREADS)),
        ("add_up", _SCAN_THREADS, _ADD_UP, dim(1)),
        ("place", _THREADS, _PLACE, blocks(count, _THREADS)),
    ):
        assembly.kernel(f"{name}_rows", threads, parameters, body)
        assembly.launch(f"{name}_rows", grid)
    return assembly.source()
