"""Evaluation of one operator call on host arrays, for constant folding.  The kernels are the same as those of the machine."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.core.group import Group, Node
from ...ops.core.op import Op, OpPattern
from ...ops.core.tensor_types import DTYPES, Tensor, numpy_dtype
from ...ops.core.type_relation import build_group, shape_program
from ...ops.native.jit import library_calls
from ...ops.native.object_layout import TENSOR
from ...ops.native.status import SIZE_OVERFLOW, STATUS
from ...ops.native.threads import team
from ...ops.strategy.choice import resolve_implementation
from ...ops.strategy.implementation import HOST
from ...shape_funcs.symbolic.dim import shape
from ..diagnostics import codes
from ..diagnostics.source import VMError
from .kernel_addresses import in_python, kernel_address


def evaluate(op: Op, arrays: Sequence[Any], attrs: Any) -> Any:
    """The result of ``op`` on numpy arrays: an array, or a tuple of arrays.  A tuple input is a tuple of arrays.

    Raises VMError with the kernel's status, ShapeError if shapes do not fit.
    """
    flat = [a for x in arrays for a in (x if isinstance(x, tuple) else (x,))]
    refs = iter(range(len(flat)))
    args = tuple(tuple(next(refs) for _ in x) if isinstance(x, tuple) else next(refs) for x in arrays)
    params = tuple(Tensor(a.dtype.name, shape(a.shape)) for a in flat)
    group = build_group(params, (), (Node(op.name, attrs, args, ()),), ())
    n_outputs = len(group.nodes[0].outputs)
    group = Group(group.params, (), group.nodes, tuple(range(len(flat), len(flat) + n_outputs)))
    results = run_group(group, [np.asarray(a, order="C") for a in flat])
    multiple = isinstance(op.dtype(_dtypes(arrays), attrs), tuple)
    return tuple(results) if multiple else results[0]


def _dtypes(arrays: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(a.dtype.name for a in x) if isinstance(x, tuple) else x.dtype.name for x in arrays)


def run_group(group: Group, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Run a group on C-contiguous arrays: shape program, allocation, kernel, slicing of upper bounds to actual sizes."""
    made, group = shape_program(group), resolve_implementation(group, [a.shape for a in inputs])
    shapes = made.program.run(inputs)
    values = group.values()
    if group.nodes[0].operator.pattern is OpPattern.RESHAPE:
        return [inputs[0].reshape(s).copy() for s in shapes]
    try:
        outputs = [np.empty(s, numpy_dtype(values[r].dtype)) for r, s in zip(group.results, shapes, strict=True)]
    except (ValueError, MemoryError) as error:  # raised by numpy for sizes beyond its limit, also if another axis is 0
        raise VMError(f"{group.name}: {STATUS[SIZE_OVERFLOW]}", code=codes.of_status(SIZE_OVERFLOW)) from error
    counts = np.zeros(max((i for _, i in made.counts), default=0) + 1, np.int64)
    _call(group, inputs, [*outputs, *([counts] if group.counts else [])])
    for result, index in made.counts:
        outputs[result] = outputs[result][: counts[index]].copy()
    return outputs


def _call(group: Group, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    tensors = [*inputs, *outputs]
    if in_python(group):
        node = group.nodes[0]
        kernel = group.kernel_on(HOST)
        assert kernel is not None and kernel.body is not None
        kernel.body(*tensors, **kernel.attrs(node.attrs))
        return
    rows = np.zeros(len(tensors), TENSOR)
    for row, array in zip(rows, tensors, strict=True):
        row["data"], row["ndim"], row["dtype"] = array.ctypes.data, array.ndim, DTYPES.index(array.dtype.name)
        row["shape"][: array.ndim] = array.shape
    table = np.zeros(len(library_calls.TABLE), np.int64)
    from ...ops.codegen import kernel_source

    for name, address in library_calls.addresses(kernel_source(group).libraries).items():
        table[library_calls.TABLE[name].index] = address
    first = rows.ctypes.data
    argv = np.array([first + i * TENSOR.itemsize for i in range(len(tensors))], np.int64)
    argv = np.append(argv, [table.ctypes.data, team.ALONE.ctypes.data])
    call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)(kernel_address(group))
    status = call(argv.ctypes.data, len(tensors))
    if status:
        error = VMError(f"{group.name}: {STATUS.get(status, f'status {status}')}", code=codes.of_status(status))
        error.status = status
        raise error
