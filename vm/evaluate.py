"""One operator call, evaluated at once on host arrays: what constant folding uses.  The kernels are the machine's own."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ops.choice import settled
from ..ops.group import Group, Node
from ..ops.implementation import HOST
from ..ops.native import libraries, threads
from ..ops.native.layout import TENSOR
from ..ops.native.status import SIZE_OVERFLOW, STATUS
from ..ops.op import Op, OpPattern
from ..ops.relate import build_group, shape_program
from ..ops.ty import DTYPES, Tensor, numpy_dtype
from ..shape_funcs.dims import shape
from . import codes
from .kernels import in_python, kernel_address
from .source import VMError


def evaluate(op: Op, arrays: Sequence[Any], attrs: Any) -> Any:
    """The result of ``op`` on numpy arrays: an array, or a tuple of them.  A tuple input is a tuple of arrays.

    Raises VMError with the kernel's status, ShapeError where shapes do not fit.
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
    """The results of a group on C-contiguous arrays: shape program, allocation, kernel, trimming."""
    made, group = shape_program(group), settled(group, [a.shape for a in inputs])
    shapes = made.program.run(inputs)
    values = group.values()
    if group.nodes[0].operator.pattern is OpPattern.RESHAPE:
        return [inputs[0].reshape(s).copy() for s in shapes]
    try:
        outputs = [np.empty(s, numpy_dtype(values[r].dtype)) for r, s in zip(group.results, shapes, strict=True)]
    except (ValueError, MemoryError) as error:  # numpy's words for sizes beyond its own limit, also beside an axis of 0
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
    table = np.zeros(len(libraries.TABLE), np.int64)
    from ..ops.kernels import kernel_source

    for name, address in libraries.addresses(kernel_source(group).libraries).items():
        table[libraries.TABLE[name].index] = address
    first = rows.ctypes.data
    argv = np.array([first + i * TENSOR.itemsize for i in range(len(tensors))], np.int64)
    argv = np.append(argv, [table.ctypes.data, threads.ALONE.ctypes.data])
    kernel = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)(kernel_address(group))
    status = kernel(argv.ctypes.data, len(tensors))
    if status:
        error = VMError(f"{group.name}: {STATUS.get(status, f'status {status}')}", code=codes.of_status(status))
        error.status = status
        raise error
