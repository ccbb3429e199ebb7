"""argwhere, unique and searchsorted on CUDA."""

from __future__ import annotations

from string import Template

from ....shape_funcs.symbolic.dim import dim, product
from ...codegen.cuda.assembly import DIVISOR, Assembly, Parameter, blocks, divisor, element, in_memory, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, Data, OpaqueCall, Operand
from ...codegen.cuda.cuda_text import FUNCTIONS
from ...codegen.cuda.device_code.casts import NUMBER, converted
from ...codegen.cuda.vector_access import ACCESS
from ...core.tensor_types import ITEMSIZE, computed_in, is_float
from ..compaction.cuda import Compaction, Packs, add_compaction
from ..sort.merge_cuda import add_sort
from ..sort.order_cuda import Order, entry_bytes

_THREADS = 256


def _counts(call: OpaqueCall) -> Parameter:
    """The vector of true sizes."""
    assert call.counts is not None, f"{call.name} reports no size"
    return Parameter("int64*", "sizes", Data(call.counts))


# ---- argwhere --------------------------------------------------------------------------------------------------------


def argwhere(call: OpaqueCall) -> CudaSource:
    """The index of each element that is not 0, in row-major order."""
    data, (out,) = call.inputs[0], call.results
    rank, length = len(data.shape), product(data.shape)
    visit, rest = [f"int32* to = out + number * {rank};"], "at"
    for axis in range(rank - 1, 0, -1):
        visit.append(f"const int64 r{axis} = by_d{axis}.quotient({rest});")
        visit.append(f"to[{axis}] = int32({rest} - r{axis} * d{axis});")
        rest = f"r{axis}"
    visit.append(f"to[0] = int32({rest});")
    dims = [size(f"d{axis}", data.shape[axis]) for axis in range(1, rank)]
    dims += [divisor(f"by_d{axis}", data.shape[axis], length) for axis in range(1, rank)]
    assembly = Assembly()
    source, wanted, packs = _selection(assembly, data)
    compaction = Compaction(
        "elements",
        (*source, writes("out", out), _counts(call), size("length", length), *dims),
        wanted=wanted,
        visit="\n".join(f"    {line}" for line in visit) if rank else "",
        total="    sizes[0] = count;",
        rows=dim(1),
        length=length,
        packs=packs,
    )
    add_compaction(assembly, compaction)
    return assembly.source()


def _selection(assembly: Assembly, data: Operand) -> tuple[tuple[Parameter, ...], str, Packs | None]:
    """The parameters and the bodies of a selection of elements that are not 0, one by one and in packs."""
    made = data.elements
    if made is None:
        assembly.text(NUMBER, element("data_at", data))
        wanted = "    return number(data_at(data, at)) != 0;"
        width = ACCESS // ITEMSIZE[data.dtype]
        pack = f"    const auto pack = load_pack<{in_memory(data.dtype)}, {width}>(data + at);"
        is_stored = data.position is not None
        packs = Packs(width, pack + _BITS.substitute(width=width, value="number"), "aligned16(data)") if is_stored else None
        return (reads("data", data),), wanted, packs
    assembly.text(DIVISOR, FUNCTIONS)
    number = computed_in(data.dtype)
    wanted = f"    auto value = [&](int64 at) -> {number} {{\n{made.element}\n    }};\n    return value(at) != 0;"
    pack = f"    auto values = [&](int64 at) -> Pack<{number}, {made.width}> {{\n{made.pack}\n    }};"
    pack += "\n    const auto pack = values(at);"
    packs = Packs(made.width, pack + _BITS.substitute(width=made.width, value=""), made.usable) if made.width else None
    return tuple(Parameter(*p) for p in made.parameters), wanted, packs


_BITS = Template("""
    uint32 bits = 0;
#pragma unroll
    for (int i = 0; i < $width; ++i) bits |= uint32($value(pack.at[i]) != 0) << i;
    return bits;""")
_EACH = Template("""
  int64 step = gridDim.x * int64($threads);
  for (int64 at = blockIdx.x * int64($threads) + threadIdx.x; at < length; at += step) {
    $line
  }""")


# ---- unique ----------------------------------------------------------------------------------------------------------


def unique(call: OpaqueCall) -> CudaSource:
    """The distinct values of a vector, the positions of their first occurrences, each element's value number, and counts.

    Equal elements are contiguous in the sorted order, the first one in front.  Groups of equal elements are numbered in order of
    value; unless ``is_sorted`` they are renumbered in order of their first elements.
    """
    return _Unique(call).source()


class _Unique:
    def __init__(self, call: OpaqueCall) -> None:
        self.call = call
        self.assembly = assembly = Assembly()
        (self.data,), (self.length,) = call.inputs, call.inputs[0].shape
        self.is_sorted, self.has_counts = call.attrs.is_sorted, call.attrs.return_counts
        names = ("values", "indices", "inverse", "found", "members")
        self.results = {name: writes(name, tensor) for name, tensor in zip(names, call.results, strict=False)}
        self.ordered = Parameter("Entry*", "ordered", assembly.scratch(self.length * entry_bytes(self.data.dtype)))
        self.firsts, self.starts, self.ranks = (
            Parameter("int64*", name, assembly.scratch(self.length * 8 if wanted else 0))
            for name, wanted in (("firsts", not self.is_sorted), ("starts", self.has_counts), ("ranks", not self.is_sorted))
        )
        self.common = (reads("data", self.data), size("length", self.length))

    def source(self) -> CudaSource:
        """Sort, number the groups, and renumber them if needed."""
        self.assembly.text(NUMBER)
        order = Order(
            self.data.dtype,
            is_ascend=True,
            fields=(*self.common, self.ordered),
            entry="    return make_entry(key_of(data[at]), at);",
            put="    ordered[at] = entry;",
            rows=dim(1),
            length=self.length,
            kept=self.length,
        )
        add_sort(self.assembly, order)
        add_compaction(self.assembly, self.groups())
        if not self.is_sorted:
            add_compaction(self.assembly, self.first_elements())
            self.each("renumber", ("inverse",), "inverse[at] = int32(ranks[inverse[at]]);")
        elif self.has_counts:
            self.each("measure", ("members",), "if (at < sizes[0]) members[at] = size_of(starts, sizes[0], length, at);")
        return self.assembly.source()

    def groups(self) -> Compaction:
        """The compaction of elements that begin a group in the sorted order."""
        visit = ["int64 group = is_wanted ? number : number - 1, position = position_of(ordered[at]);"]
        visit += ["inverse[position] = int32(group);", "if (!is_wanted) return;"]
        if self.has_counts:
            visit.append("starts[group] = at;")
            self.assembly.text(
                "// the size of a group, from where each begins\n"
                "DEVICE int32 size_of(const int64* starts, int64 groups, int64 length, int64 group) {\n"
                "  return int32((group + 1 < groups ? starts[group + 1] : length) - starts[group]);\n}\n"
            )
        if self.is_sorted:
            visit += ["values[group] = data[position];", "indices[group] = int32(position);"]
        else:
            visit.append("firsts[group] = position;")
        return Compaction(
            "groups",
            self.fields("values", "indices", "inverse", "found"),
            wanted="    return at == 0 || key_in(ordered[at]) != key_in(ordered[at - 1]);",
            visit="\n".join(f"    {line}" for line in visit),
            total="    found[0] = int32(count);\n    sizes[0] = count;",
            rows=dim(1),
            length=self.length,
            visits_all=True,
        )

    def first_elements(self) -> Compaction:
        """The compaction of elements that are the first of their group, in the order of the data."""
        visit = ["int64 group = inverse[at];", "ranks[group] = number;"]
        visit += ["values[number] = data[at];", "indices[number] = int32(at);"]
        if self.has_counts:
            visit.append("members[number] = size_of(starts, sizes[0], length, group);")
        return Compaction(
            "firsts",
            self.fields("values", "indices", "inverse", *(["members"] if self.has_counts else [])),
            wanted="    return firsts[inverse[at]] == at;",
            visit="\n".join(f"    {line}" for line in visit),
            total="",
            rows=dim(1),
            length=self.length,
        )

    def fields(self, *results: str) -> tuple[Parameter, ...]:
        own = (self.ordered, self.firsts, self.starts, self.ranks, _counts(self.call))
        return (*self.common, *(self.results[name] for name in results), *own)

    def each(self, name: str, results: tuple[str, ...], line: str) -> None:
        """Add an elementwise kernel."""
        self.assembly.kernel(name, _THREADS, self.fields(*results), _EACH.substitute(threads=_THREADS, line=line))
        self.assembly.launch(name, blocks(self.length, _THREADS))


# ---- searchsorted ----------------------------------------------------------------------------------------------------

_SEARCH = Template("""
  int64 step = gridDim.x * int64($threads);
  for (int64 at = blockIdx.x * int64($threads) + threadIdx.x; at < count; at += step) {
    const $dtype* row = sequence + $start;
    auto value = number(value_at(values, at));
    int64 low = 0, high = length;
    while (low < high) {
      int64 middle = (low + high) / 2;
      auto other = number(row[middle]);
      if ($follows) low = middle + 1;
      else high = middle;
    }
    out[at] = $result;
  }
""")


def searchsorted(call: OpaqueCall) -> CudaSource:
    """The insertion index of each value in its row of the sequence, or in the single row.  NaN is the largest value."""
    (sequence, values), (out,) = call.inputs, call.results
    before = "({0} < {1} || ({1} != {1} && {0} == {0}))" if is_float(sequence.dtype) else "({0} < {1})"
    follows = f"!{before.format('value', 'other')}" if call.attrs.right else before.format("other", "value")
    body = _SEARCH.substitute(
        threads=_THREADS,
        dtype=in_memory(sequence.dtype),
        start="at / row_values * length" if len(sequence.shape) > 1 else "0",
        follows=follows,
        result=converted("low", "int64", out.dtype),
    )
    count = product(values.shape)
    sizes = (size("count", count), size("length", sequence.shape[-1]))
    row_values = size("row_values", values.shape[-1] if values.shape else dim(1))
    assembly = Assembly()
    assembly.text(NUMBER, element("value_at", values))
    parameters = (reads("sequence", sequence), reads("values", values), writes("out", out), *sizes, row_values)
    assembly.kernel("search", _THREADS, parameters, body)
    assembly.launch("search", blocks(count, _THREADS))
    return assembly.source()
