"""Scattering on CUDA: few updates in one launch; more by the last update of each place, or by a stable sort by place.

After a sort the updates of one place are contiguous and in order.  Mode ``update`` writes the last update of each place.  The
other modes run one thread per place, which combines its updates in order.  The result equals that of one loop over the updates
and does not depend on the schedule of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import Template

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, const, dim, product
from ....shape_funcs.symbolic.dim_operations import all_, le, not_, where
from ...codegen.cuda.assembly import Assembly, Parameter, Parameters, blocks, element, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, Fault, OpaqueCall, Operand, Site
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...codegen.loop_nest.scalar_functions import SCALAR_FUNCTIONS
from ...core.tensor_types import computed_in, is_float
from ...native.status import BAD_VALUE, INDEX_OUT_OF_RANGE
from ..sort.merge_cuda import add_sort
from ..sort.order_cuda import Order, entry_bytes
from .few_cuda import FEW, FewUpdates
from .last_cuda import LastUpdates

_THREADS = 256
_FAULT: Parameters = (Parameter("void*", "fault", Fault()), Parameter("int64", "site", Site()))
_REFUSE = f"if (places[at] < 0) fail(fault, {INDEX_OUT_OF_RANGE}, site);"

_EACH = Template("""
  int64 step = gridDim.x * int64($threads);
  for (int64 at = blockIdx.x * int64($threads) + threadIdx.x; at < $count; at += step) {
    $body
  }
""")

_FROM_THE_END = """
// An index as one from the front; -1 when it is out of range.
DEVICE int64 from_the_end(int64 index, int64 size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? index : -1;
}
"""


# An entry of LAST, whose index was out of range, has no position.
_WRITE = Template("""
  auto update_of = [&](int64 update, int64 part) { return update_at(updates, $update); };
  int64 step = gridDim.x * int64($threads);
  for (int64 work = blockIdx.x * int64($threads) + threadIdx.x; work < count * inner; work += step) {
    int64 at = work / inner, part = work % inner, update = position_of(ordered[at]);
    if (update < 0) continue;
    int64 place = places[update];
$body
  }
""")

_LAST = """
    if (at + 1 < count && key_in(ordered[at + 1]) == key_in(ordered[at])) continue;
    out[place + part] = update_of(update, part);"""

_IN_TURN = Template("""
    if (at > 0 && key_in(ordered[at - 1]) == key_in(ordered[at])) continue;
    auto value = number(out[place + part]);
    int64 next = at;
    for (; next < count && key_in(ordered[next]) == key_in(ordered[at]); ++next) {
      auto other = number(update_of(position_of(ordered[next]), part));
      $step
    }
    $finish
    out[place + part] = $result;""")


def scatter_elements(call: OpaqueCall) -> CudaSource:
    """Scatter each update to the index of the same position, along an axis."""
    data, indices, updates = call.inputs
    rank = len(data.shape)
    lines = ["auto rest = at;", "int64 place = 0, step = 1, index;"]
    for k in reversed(range(rank)):
        lines += [f"index = rest % decltype(rest)(n{k}); rest /= decltype(rest)(n{k});"]
        if k == call.attrs.axis % rank:
            lines += [f"index = from_the_end(int64(index_at(indices, at)), d{k});", "if (index < 0) return -1;"]
        lines += [f"place += index * step; step *= d{k};"]
    lines += ["return place;"]
    sizes = (*_sizes("d", data.shape), *_sizes("n", indices.shape))
    scatter = _Scatter(
        call.results[0], data, indices, updates, product(indices.shape), dim(1), call.attrs.reduction, product(data.shape)
    )
    return scatter.source(lines, sizes)


def scatter_nd(call: OpaqueCall) -> CudaSource:
    """Scatter each slice of the updates to an index tuple."""
    data, indices, updates = call.inputs
    coordinates = const(indices.shape[0])
    assert coordinates is not None, "checked by the shape function"
    lines = ["int64 place = 0, index;"]
    for k in range(coordinates):
        lines += [f"index = from_the_end(int64(index_at(indices, {k} * count + at)), d{k});", "if (index < 0) return -1;"]
        lines += [f"place = place * d{k} + index;"]
    lines += ["return place * inner;"]
    count, inner = product(indices.shape[1:]), product(data.shape[coordinates:])
    offsets = product(data.shape[:coordinates])
    scatter = _Scatter(call.results[0], data, indices, updates, count, inner, call.attrs.mode, offsets)
    return scatter.source(lines, _sizes("d", data.shape[:coordinates]))


def sparse_to_dense(call: OpaqueCall) -> CudaSource:
    """Values at points; a default elsewhere."""
    indices, values, default = call.inputs[:3]
    (out,) = call.results
    rank = len(out.shape)
    lines = ["int64 place = 0, index;"]
    for k in range(rank):
        lines += [f"index = int64(index_at(indices, int64(at) * {rank} + {k}));", f"if (index < 0 || index >= d{k}) return -1;"]
        lines += [f"place = place * d{k} + index;"]
    lines += ["return place;"]
    count = indices.shape[0] if indices.shape else dim(1)
    scatter = _Scatter(out, default, indices, values, count, dim(1), "update", product(out.shape))
    return scatter.source(lines, _sizes("d", out.shape))


def _sizes(name: str, shape: Sequence[Dim]) -> Parameters:
    return tuple(size(f"{name}{k}", d) for k, d in enumerate(shape))


@frozen
class _Scatter:
    """``data`` (or its single element) with ``count`` updates of ``inner`` elements each; ``offsets``: for updates."""

    out: Operand
    data: Operand
    indices: Operand
    updates: Operand
    count: Dim
    inner: Dim
    mode: str
    offsets: Dim

    def source(self, locate: Sequence[str], sizes: Parameters) -> CudaSource:
        """``locate``: statements that return the place of the update ``at``, -1 if an index of it is out of range."""
        assembly, is_few = Assembly(), le(self.count, FEW)
        indices = (("index_at", self.indices), ("data_at", self.data), ("update_at", self.updates))
        assembly.text(*(element(name, tensor) for name, tensor in indices), NUMBER, _FROM_THE_END)
        fields = (reads("indices", self.indices), size("count", self.count), size("inner", self.inner), *sizes, *_FAULT)
        if const(is_few) != 0:
            combine = None if self.mode == "update" else _steps(self.mode, self.out.dtype, "__popc(mates)")
            few = FewUpdates(self.out, self.data, self.updates, self.count, self.inner, locate, fields, combine)
            few.add(assembly)
        if const(is_few) != 1:
            assembly.only_if(not_(is_few))
            if self.mode == "update":
                last = LastUpdates(self.out, self.data, self.updates, self.count, self.inner, self.offsets, locate, fields)
                last.add(assembly, all_(not_(is_few), last.pays()))
                assembly.only_if(not_(last.pays()))
            if const(assembly.allowed) != 0:
                self.many(assembly, locate, fields)
        return assembly.source()

    def many(self, assembly: Assembly, locate: Sequence[str], fields: Parameters) -> None:
        """Add the kernels that copy the data, find the places, sort them and write the updates."""
        entries = where(assembly.allowed, self.count, 0)
        offsets = Parameter("int64*", "places", assembly.scratch(entries * 8))
        ordered = Parameter("Entry*", "ordered", assembly.scratch(entries * entry_bytes("int64")))
        self.begin(assembly)
        body = "  auto locate = [&](int64 at) -> int64 {\n" + "".join(f"    {line}\n" for line in locate) + "  };\n"
        body += _EACH.substitute(threads=_THREADS, count="count", body=f"places[at] = locate(at);\n    {_REFUSE}")
        assembly.kernel("locate", _THREADS, (offsets, *fields), body)
        assembly.launch("locate", blocks(self.count, _THREADS))
        add_sort(assembly, self.order(offsets, ordered))
        update = "update * inner + part" if self.updates.shape else "0"
        step = _LAST if self.mode == "update" else _IN_TURN.substitute(**_steps(self.mode, self.out.dtype, "next - at"))
        body = _WRITE.substitute(threads=_THREADS, update=update, body=step)
        count, inner = size("count", self.count), size("inner", self.inner)
        parameters = (reads("updates", self.updates), writes("out", self.out), offsets, ordered, count, inner)
        assembly.kernel("write", _THREADS, parameters, body)
        assembly.launch("write", blocks(self.count * self.inner, _THREADS))

    def begin(self, assembly: Assembly) -> None:
        """Add the kernel that initialises the result before any update; nothing where it is written over the data."""
        total = product(self.out.shape)
        line = f"out[at] = data_at(data, {'at' if self.data.shape else '0'});"
        parameters = (reads("data", self.data), writes("out", self.out), size("total", total))
        body = "  if (data == out) return;" + _EACH.substitute(threads=_THREADS, count="total", body=line)
        assembly.kernel("begin", _THREADS, parameters, body)
        assembly.launch("begin", blocks(total, _THREADS))

    def order(self, offsets: Parameter, ordered: Parameter) -> Order:
        """The updates by their places; updates without a place come last."""
        return Order(
            "int64",
            is_ascend=True,
            fields=(offsets, ordered),
            entry="    return places[at] < 0 ? LAST : make_entry(key_of(places[at]), at);",
            put="    ordered[at] = entry;",
            rows=dim(1),
            length=self.count,
            kept=self.count,
        )


def _steps(mode: str, dtype: str, updates: str) -> dict[str, str]:
    """Texts of a mode: combine a value with another, finish after the last update, and convert to the stored form.

    ``updates``: the number of updates.
    """
    sort = computed_in(dtype)
    function = {"add": "add", "mean": "add", "mul": "multiply", "min": "minimum", "max": "maximum"}[mode]
    step = f"value = {SCALAR_FUNCTIONS[function].cuda_c(['value', 'other'], sort, sort)};"
    finish = f"value = {sort}(float64(value) / float64({updates} + 1));" if mode == "mean" else ""
    assert mode != "mean" or is_float(dtype), "checked by the dtype rule"
    return {"step": step, "finish": finish, "result": converted("value", sort, dtype)}


_INVERT = Template("""int64 place = int64(data[at]);
    if (place < 0 || place >= length) fail(fault, $outside, site);
    else if (atomicCAS(reinterpret_cast<$word*>(out + place), $word(-1), $word(at)) != $word(-1)) {
      fail(fault, $taken, site);
    }""")


def invert_permutation(call: OpaqueCall) -> CudaSource:
    """The inverse of a permutation; a thread that finds its place taken reports the duplicate."""
    (data,), (out,) = call.inputs, call.results
    length = data.shape[0]
    word = "uint64" if out.dtype == "int64" else "int32"
    body = _INVERT.substitute(word=word, outside=INDEX_OUT_OF_RANGE, taken=BAD_VALUE)
    assembly = Assembly()
    parameters = (reads("data", data), writes("out", out), size("length", length))
    for name, line, more in (("begin", "out[at] = -1;", ()), ("invert", body, _FAULT)):
        text = _EACH.substitute(threads=_THREADS, count="length", body=line)
        assembly.kernel(name, _THREADS, (*parameters, *more), text)
        assembly.launch(name, blocks(length, _THREADS))
    return assembly.source()
