"""get_valid_counts on CUDA."""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import product
from ....shape_funcs.symbolic.dim_operations import all_, eq, le, lt
from ...codegen.cuda.assembly import Assembly, blocks, element, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...native.status import BAD_VALUE
from ..compaction.cuda import Compaction, add_compaction

_THREADS = 256

_FILL = Template("""
  int64 all = batches * boxes * fields, step = gridDim.x * int64($threads);
  for (int64 at = blockIdx.x * int64($threads) + threadIdx.x; at < all; at += step) {
    int64 box = at / fields, batch = box / boxes;
    if (box % boxes < valid_count[batch]) continue;
    out[at] = $nothing;
    if (at % fields == 0) out_indices[box] = -1;
  }
""")


def get_valid_counts(call: OpaqueCall) -> CudaSource:
    """The boxes above the threshold first, their positions, their number; -1 after them."""
    (data, threshold), (count, out, indices), attrs = call.inputs, call.results, call.attrs
    batches, boxes, fields = data.shape
    wanted = f"number(box[{attrs.score_index}]) > number(threshold_at(threshold, 0))"
    if attrs.id_index >= 0:
        wanted += f" && number(box[{attrs.id_index}]) >= 0"
    common = (writes("valid_count", count), writes("out", out), writes("out_indices", indices), size("fields", fields))
    compaction = Compaction(
        "boxes",
        (reads("data", data), reads("threshold", threshold), *common, size("length", boxes)),
        wanted=f"    const {data.dtype}* box = data + (row * length + at) * fields;\n    return {wanted};",
        visit="""
    out_indices[row * length + number] = int32(at);
    for (int64 f = 0; f < fields; ++f) out[(row * length + number) * fields + f] = data[(row * length + at) * fields + f];""",
        total="    valid_count[row] = int32(count);",
        rows=batches,
        length=boxes,
    )
    assembly = Assembly()
    assembly.text(NUMBER, element("threshold_at", threshold))
    usable = all_(lt(attrs.id_index, fields), le(0, attrs.score_index), lt(attrs.score_index, fields))
    assembly.require(all_(usable, eq(product(threshold.shape), 1)), BAD_VALUE)
    add_compaction(assembly, compaction)
    fill = _FILL.substitute(threads=_THREADS, nothing=converted("-1.0f", "float32", data.dtype))
    assembly.kernel("fill", _THREADS, (*common, size("batches", batches), size("boxes", boxes)), fill)
    assembly.launch("fill", blocks(batches * boxes * fields, _THREADS))
    return assembly.source()
