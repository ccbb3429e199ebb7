"""Evaluation of one operator call on host arrays, for constant folding.  The kernels are the same as those of the machine."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ops.core.attrs import text_of
from ...ops.core.group import Group, Node
from ...ops.core.implementation import HOST
from ...ops.core.op import Op, OpPattern, TypeRelError
from ...ops.core.tensor_types import DTYPES, Tensor, dtype_name, numpy_dtype
from ...ops.core.type_relation import build_group, shape_program
from ...ops.native.blas import library_calls
from ...ops.native.jit.native_compiler import UNOPTIMIZED
from ...ops.native.object_layout import TENSOR
from ...ops.native.status import SIZE_OVERFLOW, STATUS
from ...ops.native.threads import team
from ...ops.strategy.choice import resolve_implementation
from ...shape_funcs.symbolic.dim import Dim, Shape, dim, shape, sym
from ...shape_funcs.symbolic.registry import ShapeError
from ..diagnostics import codes
from ..diagnostics.source import VMError
from .kernels.kernel_addresses import in_python, kernel_address
from .kernels.python_call import call_in_python


def evaluate(op: Op, arrays: Sequence[Any], attrs: Any, *, open_sizes: bool = False) -> Any:
    """The result of ``op`` on numpy arrays: an array, or a tuple of arrays.  A tuple input is a tuple of arrays.

    ``open_sizes``: use the kernel for unknown sizes, one for arrays of many sizes, where the operator has such a kernel.
    Raises VMError with the kernel's status, ShapeError if shapes do not fit, TypeRelError if types do not fit.
    """
    if open_sizes:
        try:
            return _evaluate(op, arrays, attrs, _OpenSizes())
        except (TypeRelError, ShapeError):
            pass  # the operator needs a known size, or an argument is wrong
    return _evaluate(op, arrays, attrs, None)


class _OpenSizes:
    """Shapes of parameters in which equal sizes have one name.  A size of 1 stays known: such axes broadcast."""

    def __init__(self) -> None:
        self._names: dict[int, Dim] = {1: dim(1)}

    def of(self, sizes: tuple[int, ...]) -> Shape:
        """The shape with names for sizes."""
        return tuple(self._names.setdefault(n, sym(f"d{len(self._names)}")) for n in sizes)


#: Tensors of so many bytes take less time by code that is not optimized than the optimization would.
FEW_BYTES = 1 << 22
#: The words of a tensor's descriptor that a kernel reads.
_WORD = 8
assert TENSOR.fields is not None
_DATA, _NDIM, _DTYPE, _SHAPE = (TENSOR.fields[name][1] // _WORD for name in ("data", "ndim", "dtype", "shape"))
#: The most prepared calls that are kept.
MAX_PREPARED = 10_000
#: Prepared calls for unknown sizes, by operator, attributes and types: evaluators repeat few calls often.
_prepared: dict[tuple[Any, ...], PreparedGroup] = {}


def _evaluate(op: Op, arrays: Sequence[Any], attrs: Any, names: _OpenSizes | None) -> Any:
    flat = [a for x in arrays for a in (x if isinstance(x, tuple) else (x,))]
    multiple = isinstance(op.dtype(_dtypes(arrays), attrs), tuple)
    inputs = [np.asarray(a, order="C") for a in flat]
    key = (
        op.name,
        text_of(attrs),
        tuple(len(x) if isinstance(x, tuple) else -1 for x in arrays),
        *((a.dtype, a.shape) for a in flat),
    )
    prepared = None if names is None else _prepared.get(key)
    if prepared is None:
        prepared = PreparedGroup(_group(op, arrays, flat, attrs, names), [a.shape for a in inputs])
        if names is not None:
            if len(_prepared) >= MAX_PREPARED:
                _prepared.clear()
            _prepared[key] = prepared
    results = prepared.run(inputs)
    return tuple(results) if multiple else results[0]


def _group(op: Op, arrays: Sequence[Any], flat: Sequence[Any], attrs: Any, names: _OpenSizes | None) -> Group:
    """The group of one call."""
    refs = iter(range(len(flat)))
    args = tuple(tuple(next(refs) for _ in x) if isinstance(x, tuple) else next(refs) for x in arrays)
    flagged = [f for x, f in zip(arrays, op.data_dependent, strict=True) for _ in (x if isinstance(x, tuple) else (x,))]
    params = tuple(
        Tensor(a.dtype.name, shape(a.shape) if names is None or f else names.of(a.shape))
        for a, f in zip(flat, flagged, strict=True)
    )
    group = build_group(params, (), (Node(op.name, attrs, args, ()),), ())
    n_outputs = len(group.nodes[0].outputs)
    return Group(group.params, (), group.nodes, tuple(range(len(flat), len(flat) + n_outputs)))


def _dtypes(arrays: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tuple(dtype_name(a.dtype) for a in x) if isinstance(x, tuple) else dtype_name(x.dtype) for x in arrays)


def run_group(group: Group, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """Run a group on C-contiguous arrays: shape program, allocation, kernel, slicing of upper bounds to actual sizes."""
    return PreparedGroup(group, [a.shape for a in inputs]).run(inputs)


class PreparedGroup:
    """A group with its shape program and, after the first run, its kernel, for arrays of the given shapes."""

    def __init__(self, group: Group, shapes: Sequence[tuple[int, ...]]) -> None:
        self.made, self.group = shape_program(group), resolve_implementation(group, list(shapes))
        self._kernel: tuple[Any, np.ndarray, tuple[int, int]] | None = None

    def run(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """The results.  Raises VMError with the kernel's status, ShapeError if shapes do not fit."""
        group, made = self.group, self.made
        shapes = made.program.run(inputs)
        values = group.values()
        if group.nodes[0].operator.pattern is OpPattern.RESHAPE:
            return [inputs[0].reshape(s).copy() for s in shapes]
        try:
            outputs = [np.empty(s, numpy_dtype(values[r].dtype)) for r, s in zip(group.results, shapes, strict=True)]
        except (ValueError, MemoryError) as error:  # raised by numpy for sizes beyond its limit, also if another axis is 0
            raise VMError(f"{group.name}: {STATUS[SIZE_OVERFLOW]}", code=codes.of_status(SIZE_OVERFLOW)) from error
        counts = np.zeros(max((i for _, i in made.counts), default=0) + 1, np.int64)
        self._call([*inputs, *outputs, *([counts] if group.counts else [])])
        for result, index in made.counts:
            outputs[result] = outputs[result][: counts[index]].copy()
        return outputs

    def _call(self, tensors: list[np.ndarray]) -> None:
        group = self.group
        if in_python(group):
            call_in_python(group, tensors)
            return
        # words: an assignment to a field of a record takes some times as long
        rows = np.zeros((len(tensors), TENSOR.itemsize // _WORD), np.int64)
        for row, array in zip(rows, tensors, strict=True):
            row[_DATA], row[_NDIM], row[_DTYPE] = _address_of(array), array.ndim, DTYPES.index(dtype_name(array.dtype))
            row[_SHAPE : _SHAPE + array.ndim] = array.shape
        call, _, more = self._loaded(sum(array.nbytes for array in tensors))
        first = _address_of(rows)
        described = (first + i * TENSOR.itemsize for i in range(len(tensors)))
        argv = np.array([*described, *more], np.int64)
        status = call(_address_of(argv), len(tensors))
        if status:
            error = VMError(f"{group.name}: {STATUS.get(status, f'status {status}')}", code=codes.of_status(status))
            error.status = status
            raise error

    def _loaded(self, nbytes: int) -> tuple[Any, np.ndarray, tuple[int, int]]:
        """The kernel as a C function, the addresses of the library functions that it calls, and what argv has after tensors.

        ``nbytes``: of its tensors.
        """
        if self._kernel is None:
            from ...ops.codegen import kernel_source

            table = np.zeros(len(library_calls.TABLE), np.int64)
            for name, address in library_calls.addresses(kernel_source(self.group).libraries).items():
                table[library_calls.TABLE[name].index] = address
            function = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)(self._address(nbytes))
            self._kernel = function, table, (_address_of(table), _address_of(team.ALONE))
        return self._kernel

    def _address(self, nbytes: int) -> int:
        """The kernel's machine code: not optimized for few bytes, unless the optimization decides the order of a sum."""
        generated = self.group.kernel_on(HOST) is None
        is_sum = any(node.operator.pattern is OpPattern.COMM_REDUCE for node in self.group.nodes)
        return kernel_address(self.group, UNOPTIMIZED if nbytes <= FEW_BYTES and generated and not is_sum else None)


def _address_of(array: np.ndarray) -> int:
    address: int = array.__array_interface__["data"][0]
    return address
