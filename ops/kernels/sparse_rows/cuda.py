"""Fill the empty rows of a sparse tensor on CUDA: one thread counts, places and copies, in the order of the values."""

from __future__ import annotations

from ...codegen.cuda.assembly import Assembly, Parameter, element, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, Data, Fault, OpaqueCall, Site
from ...native.status import INDEX_OUT_OF_RANGE

_BODY = f"""
  if (blockIdx.x != 0 || threadIdx.x != 0) return;
  for (int64 row = 0; row < rows; ++row) places[row] = 0;
  for (int64 at = 0; at < count; ++at) {{
    int64 row = int64(index_at(indices, at * coordinates));
    if (row < 0 || row >= rows) {{
      sizes[0] = 0;
      fail(fault, {INDEX_OUT_OF_RANGE}, site);
      return;
    }}
    ++places[row];
  }}
  int64 end = 0;
  for (int64 row = 0; row < rows; ++row) {{
    int64 number = places[row], place = end;
    places[row] = place;
    is_empty[row] = number == 0;
    end += number > 0 ? number : 1;
    if (number > 0) continue;
    new_values[place] = default_at(fill, 0);
    for (int64 k = 0; k < coordinates; ++k) new_indices[place * coordinates + k] = k == 0 ? row : 0;
  }}
  for (int64 at = 0; at < count; ++at) {{
    int64 place = places[int64(index_at(indices, at * coordinates))]++;
    new_values[place] = value_at(values, at);
    for (int64 k = 0; k < coordinates; ++k) {{
      new_indices[place * coordinates + k] = int64(index_at(indices, at * coordinates + k));
    }}
  }}
  sizes[0] = end;"""


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
        size("count", indices.shape[0]),
        size("coordinates", indices.shape[1]),
        size("rows", rows),
        Parameter("void*", "fault", Fault()),
        Parameter("int64", "site", Site()),
    )
    assembly.kernel("fill", 32, parameters, _BODY)
    assembly.launch("fill", 1)
    return assembly.source()
