"""sort, argsort and topk on CUDA: the sorted tensor and the stored results.  See ``merge_cuda`` for the algorithms."""

from __future__ import annotations

from ...codegen.cuda.assembly import Assembly, around, divisor, reads, size, writes
from ...codegen.cuda.cuda_program import CudaSource, OpaqueCall, Operand
from ...codegen.cuda.device_code.casts import converted
from .merge_cuda import add_sort
from .order_cuda import Elements, Order


def sort(call: OpaqueCall) -> CudaSource:
    """The sorted values."""
    return _ordered(call, values=call.results[0])


def argsort(call: OpaqueCall) -> CudaSource:
    """The positions that sort the values."""
    return _ordered(call, positions=call.results[0])


def topk(call: OpaqueCall) -> CudaSource:
    """The first k values in order, their positions, or both; k is the size of the results."""
    if call.attrs.ret_type == "values":
        return _ordered(call, values=call.results[0])
    if call.attrs.ret_type == "indices":
        return _ordered(call, positions=call.results[0])
    return _ordered(call, *call.results)


def _ordered(call: OpaqueCall, values: Operand | None = None, positions: Operand | None = None) -> CudaSource:
    data, attrs = call.inputs[0], call.attrs
    outer, length, inner = around(data.shape, attrs.axis)
    kept = around(call.results[0].shape, attrs.axis)[1]
    fields = [reads("data", data), size("length", length), size("inner", inner), size("kept", kept)]
    fields.append(divisor("by_inner", inner, outer * inner))
    before = "by_inner.quotient(row)"
    place = f"({before} * kept + at) * inner + row - {before} * inner"
    put, put_value, put_position = [f"int64 to = {place};"], "", ""
    if values is not None:
        fields.append(writes("values", values))
        put.append("values[to] = first(row)[position_of(entry) * inner];")
        put_value = f"    values[{place}] = value;"
    if positions is not None:
        fields.append(writes("positions", positions))
        put.append(f"positions[to] = {converted('position_of(entry)', 'int64', positions.dtype)};")
        put_position = f"    positions[{place}] = {converted('position', 'int64', positions.dtype)};"
    # rows of the last axis need no division: without it more loads are in flight
    first = f"    return data + (inner == 1 ? row * length : {before} * (length - 1) * inner + row);"
    entry = "    return make_entry(key_of(first(row)[at * inner]), at);"
    order = Order(
        data.dtype,
        attrs.is_ascend,
        fields=tuple(fields),
        entry=entry,
        put="\n".join(f"    {line}" for line in put),
        rows=outer * inner,
        length=length,
        kept=kept,
        elements=Elements(first, "inner", put_value, put_position),
    )
    assembly = Assembly()
    add_sort(assembly, order)
    return assembly.source()
