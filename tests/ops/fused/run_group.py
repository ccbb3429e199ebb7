"""Runs a group's kernel on numpy arrays: its source as plain Python, or compiled."""

from __future__ import annotations

import ctypes
import functools
import math
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from relayvm.ops.codegen import kernel_source
from relayvm.ops.codegen.cpu.fused_kernel import BODIES
from relayvm.ops.core.group import Group, Literal, Node
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import DTYPES, HALVES, Tensor, numpy_dtype
from relayvm.ops.core.type_relation import build_group, shape_program
from relayvm.ops.native import memory
from relayvm.ops.native.compiled import kernel_store
from relayvm.ops.native.generated_source import define
from relayvm.ops.native.halves import scalar_types
from relayvm.ops.native.jit.native_compiler import Levels, kernel_levels
from relayvm.ops.native.jit.non_temporal import LINE_BYTES
from relayvm.ops.native.object_layout import TENSOR
from relayvm.ops.native.threads import team
from relayvm.ops.strategy.choice import resolve_implementation
from relayvm.shape_funcs.symbolic.dim import dim, sym


def _scalar(dtype: str) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        # as machine code converts: what is out of range wraps
        if dtype == "uint64" and isinstance(value, int):
            return np.uint64(value)
        return np.asarray(value).astype(dtype)[()]

    return convert


#: The names available to a kernel's source, in plain Python; numpy's functions, because those of ``math`` raise.
_ALIKE = (
    *("exp", "log", "log2", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("isinf", "isfinite", "inf", "nan", "ceil", "floor", "copysign", "fabs"),
)
_MATH = {
    **{name: getattr(np, name) for name in _ALIKE},
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "pow": np.power,
    "erf": lambda x: type(x)(math.erf(x)),
}
TWINS: dict[str, Any] = {
    "load_i64": memory.load_i64,
    "tensor": memory.tensor,
    "math": types.SimpleNamespace(**_MATH),
    **memory.ARRAYS,
    **BODIES,
    "alloc": memory.alloc,
    "free": memory.free,
    **{d: _scalar(d) for d in DTYPES if d != "bool" and d not in HALVES},
    **{d: scalar_types()[d] for d in HALVES},
    "uint64": lambda v: np.uint64(v) if not isinstance(v, np.floating) else np.asarray(v).astype("uint64")[()],
}


def of_small_results(text: str) -> str:
    """A kernel's text without the loops of results that are too large for the caches."""
    lines, kept = text.splitlines(), list[str]()
    while lines:
        line = lines.pop(0)
        if "if lines_past_caches(" in line:
            indentation = line[: -len(line.lstrip())]
            lines = lines[lines.index(f"{indentation}else:") + 1 :]
        else:
            kept.append(line)
    return "\n".join(kept)


def group_of(params: Sequence[Tensor], nodes: Sequence[Node], literals: Sequence[Literal] = (), results: Any = None) -> Group:
    """A group whose result is its last value, unless ``results`` is given."""
    group = build_group(params, literals, nodes, ())
    return Group(group.params, group.literals, group.nodes, tuple(results or [len(group.values()) - 1]))


def one_call(op: str, arrays: Sequence[Any], attrs: Any = None, static: bool = False) -> Group:
    """The group of one call; the dims of the arrays are unknown unless ``static``.  A tuple of arrays is a tuple input."""
    flat = [x for a in arrays for x in (a if isinstance(a, tuple) else (a,))]
    flagged = [
        flag for a, flag in zip(arrays, get(op).data_dependent, strict=True) for _ in (a if isinstance(a, tuple) else (a,))
    ]
    params, numbers, args = [], iter(range(len(flat))), []
    for k, (x, flag) in enumerate(zip(flat, flagged, strict=True)):
        # an input whose values decide the shape has a known size
        dims = [dim(s) if static or flag else sym(f"d{10 * k + a}") for a, s in enumerate(x.shape)]
        params.append(Tensor(str(x.dtype), tuple(dims)))
    for a in arrays:
        args.append(tuple(next(numbers) for _ in a) if isinstance(a, tuple) else next(numbers))
    group = build_group(params, (), [Node(op, attrs if attrs is not None else get(op).attrs(), tuple(args), ())], ())
    n = len(group.nodes[0].outputs)
    return Group(group.params, (), group.nodes, tuple(range(len(params), len(params) + n)))


#: From the text of a kernel to a function.
Run = Callable[[str], Callable[[int, int], int]]


class Descriptors:
    """TENSOR records of arrays, and the argument vector of a kernel."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arrays = arrays
        self.records = np.zeros(len(arrays), TENSOR)
        for record, a in zip(self.records, arrays, strict=True):
            record["data"], record["ndim"] = a.ctypes.data, a.ndim
            record["shape"][: a.ndim] = a.shape
        start = self.records.ctypes.data
        self.argv = np.array([start + k * TENSOR.itemsize for k in range(len(arrays))] + [0, team.ALONE.ctypes.data], np.int64)

    @property
    def address(self) -> int:
        return self.argv.ctypes.data


@functools.cache
def plain(text: str) -> Callable[[int, int], int]:
    """The kernel as plain Python."""
    namespace = dict(TWINS)
    define("kernel", text, namespace)
    return namespace["kernel"]


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins a cache line, as the machine's tensors do."""
    memory_of = np.empty(array.nbytes + LINE_BYTES, np.uint8)
    start = -memory_of.ctypes.data % LINE_BYTES
    copy = memory_of[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def evaluate(
    group: Group, arrays: Sequence[Any], run: Run = plain, portions: Sequence[np.ndarray] = (team.ALONE,)
) -> tuple[int, list[np.ndarray]]:
    """The status of the kernel and its results, called for each of ``portions`` until a call fails."""
    inputs = [np.ascontiguousarray(x).reshape(x.shape) for x in arrays]
    shapes = shape_program(group).program.run(inputs)
    group = resolve_implementation(group, [a.shape for a in inputs])
    dtypes = [group.values()[r].dtype for r in group.results]
    outputs = [aligned(np.full(s, 99 if d != "bool" else True, numpy_dtype(d))) for s, d in zip(shapes, dtypes, strict=True)]
    descriptors = Descriptors([*inputs, *outputs])
    kernel = run(kernel_source(group).text)
    with np.errstate(all="ignore"):
        status = 0
        for share in portions:
            descriptors.argv[-1] = share.ctypes.data
            status = kernel(descriptors.address, len(descriptors.arrays))
            if status:
                break
    return int(status), outputs


def call(op: str, arrays: Sequence[Any], attrs: Any = None, static: bool = False, run: Any = plain) -> Any:
    """The result of one call (a list for several).  Fails when the kernel gives a status."""
    flat = [x for a in arrays for x in (a if isinstance(a, tuple) else (a,))]
    status, outputs = evaluate(one_call(op, arrays, attrs, static), flat, run)
    assert status == 0, status
    return outputs if len(outputs) > 1 else outputs[0]


#: The signature of a kernel.
SIGNATURE = "int32(int64, int64)"


def function_of(text: str) -> Callable[[int, int], int]:
    """The kernel as a native function."""
    used = ("load_i64", "tensor", "alloc", "free")
    named = {name: getattr(memory, name) for name in used}
    namespace = {**memory.ARRAYS, **named, **BODIES, "math": math, **scalar_types()}
    define("kernel", text, namespace)
    return memory.native(namespace["kernel"])


def compiled(text: str) -> Callable[[int, int], int]:
    """The kernel as machine code; optimized in tests that are marked so."""
    return _compiled_once(text, kernel_levels())


def compiled_anew(text: str) -> Callable[[int, int], int]:
    """The same, for what the functions that the kernel calls are now."""
    return _machine_code(text, kernel_levels())


def _machine_code(text: str, levels: Levels) -> Callable[[int, int], int]:
    address = kernel_store.address_of(function_of(text), SIGNATURE, "kernel", levels)
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64, ctypes.c_int64)(address)


_compiled_once = functools.cache(_machine_code)
