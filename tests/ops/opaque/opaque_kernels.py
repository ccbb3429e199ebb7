"""Runs the kernel of one operator call on numpy arrays, as plain Python or as machine code."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import relayvm.ops as _every_operator  # noqa: F401
from relayvm.ops.codegen.cpu import opaque_kernel
from relayvm.ops.codegen.cpu.kernel_source import KernelSource
from relayvm.ops.core.group import Group, Node
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import DTYPES, Tensor, numpy_dtype
from relayvm.ops.core.type_relation import build_group, shape_program
from relayvm.ops.native import memory
from relayvm.ops.native.blas import gemm, library_calls
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.halves import scalar_types
from relayvm.ops.native.jit.native_compiler import kernel_levels
from relayvm.ops.native.object_layout import TENSOR
from relayvm.ops.native.threads import team
from relayvm.ops.strategy.choice import resolve_implementation
from relayvm.shape_funcs.symbolic.dim import dim, sym


def descriptor(array: np.ndarray) -> np.ndarray:
    """A TENSOR record of a contiguous array."""
    record = np.zeros(1, TENSOR)
    record["data"], record["ndim"], record["dtype"] = array.ctypes.data, array.ndim, DTYPES.index(array.dtype.name)
    record["shape"][0, : array.ndim] = array.shape
    return record


def function_of(source: KernelSource) -> Any:
    """The kernel as a plain function over the twins of the intrinsics."""
    return memory.native(functions_of(source)[source.entry])


def functions_of(source: KernelSource) -> dict[str, Any]:
    """The functions of a kernel's text, by name, among the names that the text may use."""
    namespace: dict[str, Any] = {"math": math, **vars(memory), **scalar_types(), **{b.__name__: b for b in source.bodies}}
    define("kernel", source.text, namespace)
    return namespace


def group_of(name: str, attrs: Any, inputs: list[np.ndarray], known: Sequence[int] = ()) -> Group:
    """One call of an operator, with unknown dims but for the inputs ``known`` and those whose values decide the shape."""
    fixed = {k for k, flag in enumerate(get(name).data_dependent) if flag} | set(known)

    def tensor(array: np.ndarray, k: int) -> Tensor:
        shape = tuple(dim(n) if k in fixed else sym(f"d{k}_{i}") for i, n in enumerate(array.shape))
        return Tensor(array.dtype.name, shape)

    params = tuple(tensor(a, k) for k, a in enumerate(inputs))
    first, n_outputs = len(params), len(np.atleast_1d(get(name).dtype(tuple(a.dtype.name for a in inputs), attrs)))
    node = Node(name, attrs, tuple(range(first)), ())
    return build_group(params, (), (node,), range(first, first + n_outputs))


class Ran(NamedTuple):
    """The outcome of a kernel: the allocated outputs, its status, the size that an upper-bound operator reported."""

    outputs: list[np.ndarray]
    status: int
    count: int


def run(
    name: str,
    inputs: list[Any],
    *,
    jit: bool = False,
    known: Sequence[int] = (),
    implementation: str = "",
    in_place: Sequence[tuple[int, int]] = (),
    portions: Sequence[np.ndarray] = (team.ALONE,),
    **attributes: Any,
) -> Ran:
    """Run the operator's kernel on arrays, as machine code or as plain Python with every load and store checked.

    ``known``: the inputs whose sizes are known at compile time.  ``implementation``: "" for the one that is chosen.
    ``in_place``: inputs, each with the output that is the same memory.  It is called for each of ``portions`` until one fails.
    """
    attrs = get(name).attrs(**attributes)
    arrays = [np.ascontiguousarray(a) if np.ndim(a) else np.asarray(a) for a in inputs]
    group = resolve_implementation(group_of(name, attrs, arrays, known), [a.shape for a in arrays])
    if implementation:
        group = replace(group, implementation=implementation)
    shapes = shape_program(group).program.run(arrays)
    dtypes = [group.values()[r].dtype for r in group.results]
    # results start as memory does: with anything in it
    outputs = [np.full(shape, 77, numpy_dtype(dtype)) for shape, dtype in zip(shapes, dtypes, strict=True)]
    for i, k in in_place:
        outputs[k] = arrays[i] = arrays[i].copy()
    counts = np.full(1, -1, np.int64)
    tensors = [*arrays, *outputs, *([counts] if get(name).shape_func.upper_bound else [])]
    status = 0
    for share in portions:
        status = status or call(opaque_kernel.source(group), tensors, jit=jit, share=share)
    return Ran(outputs, status, int(counts[0]))


def call(source: KernelSource, tensors: list[np.ndarray], *, jit: bool = False, share: np.ndarray = team.ALONE) -> int:
    """Call a kernel; its status."""
    if jit:
        return prepared(source, tensors, share)()
    records, table, argv = _arguments(source, tensors, share)
    with memory.watch() as announce:
        for block in (argv, table, share, *records, *tensors, *gemm._records.values()):
            announce(block.ctypes.data, block.nbytes)
        return int(function_of(source)(argv.ctypes.data, len(tensors)))


def prepared(source: KernelSource, tensors: list[np.ndarray], share: np.ndarray = team.ALONE) -> Callable[[], int]:
    """The call of a kernel as machine code, which gives its status; the kernel is compiled before."""
    held = _arguments(source, tensors, share)
    address = kernel_store.address_of(function_of(source), "int32(int64, int64)", source.entry, kernel_levels())
    return lambda: int(memory.call_kernel(address, held[2].ctypes.data, len(tensors)))


def _arguments(
    source: KernelSource, tensors: list[np.ndarray], share: np.ndarray
) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """The records of the tensors, the library table, and the kernel's argument."""
    records = [descriptor(a) for a in tensors]
    table = np.zeros(len(library_calls.TABLE), np.int64)
    for library, address in library_calls.addresses(source.libraries).items():
        table[library_calls.TABLE[library].index] = address
    argv = np.array([*(r.ctypes.data for r in records), table.ctypes.data, share.ctypes.data], np.int64)
    return records, table, argv
