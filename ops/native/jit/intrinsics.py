"""Machine forms of the twins in ``memory``, under the same names.  Imported only when something is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as numba_intrinsic

from ..memory import HAS_HUGE_PAGES, HUGE_PAGE_BYTES, MADV_HUGEPAGE

_I8, _I32, _I64, _F64 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
_VOID = ir.VoidType()

F = TypeVar("F", bound=Callable[..., Any])


def intrinsic(define: Callable[..., Any]) -> Any:
    """A machine form by its rule ``define(typing, *argument_types)``: its signature, and the function that generates its code."""
    return numba_intrinsic(define)


def _load(result: types.Type, llvm: ir.Type) -> Any:
    @intrinsic
    def load(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.load(builder.inttoptr(args[0], llvm.as_pointer()))

        return result(types.int64), generate

    return load


def _store(value_type: types.Type, llvm: ir.Type) -> Any:
    @intrinsic
    def store(typing: Any, address: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            builder.store(args[1], builder.inttoptr(args[0], llvm.as_pointer()))
            return context.get_dummy_value()

        return types.void(types.int64, value_type), generate

    return store


load_i64, store_i64 = _load(types.int64, _I64), _store(types.int64, _I64)
load_i32, store_i32 = _load(types.int32, _I32), _store(types.int32, _I32)
load_u8, store_u8 = _load(types.uint8, _I8), _store(types.uint8, _I8)


def _bitcast(result: types.Type, argument: types.Type, llvm: ir.Type) -> Any:
    @intrinsic
    def cast(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], llvm)

        return result(argument), generate

    return cast


float_bits = _bitcast(types.int64, types.float64, _I64)
bits_float = _bitcast(types.float64, types.int64, _F64)


@intrinsic
def float32_bits(typing: Any, value: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.bitcast(args[0], _I32), _I64)

    return types.int64(types.float32), generate


@intrinsic
def bits_float32(typing: Any, bits: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(builder.trunc(args[0], _I32), ir.FloatType())

    return types.float32(types.int64), generate


def record(dtype: np.dtype) -> Any:
    """The view of a record at an address: fields read and write in place."""
    kind = numba.from_dtype(dtype)

    @intrinsic
    def view(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            llvm = context.get_value_type(kind)
            pointer = llvm if isinstance(llvm, ir.PointerType) else context.get_data_type(kind).as_pointer()
            return builder.inttoptr(args[0], pointer)

        return kind(types.int64), generate

    return view


def array(dtype: str, rank: int) -> Any:
    """A C-contiguous array view over raw memory."""
    element = types.boolean if dtype == "bool" else getattr(types, dtype)
    kind = types.Array(element, rank, "C")

    @intrinsic
    def view(typing: Any, address: Any, shape: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            from numba.np.arrayobj import make_array, populate_array

            out = make_array(kind)(context, builder)
            item = context.get_abi_sizeof(context.get_data_type(element))
            dims = cgutils.unpack_tuple(builder, args[1], rank) if rank > 1 else [args[1]]
            step = ir.Constant(_I64, item)
            strides: list[Any] = []
            for d in reversed(dims):
                strides.insert(0, step)
                step = builder.mul(step, d)
            data = builder.inttoptr(args[0], context.get_data_type(element).as_pointer())
            populate_array(out, data=data, shape=dims, strides=strides, itemsize=ir.Constant(_I64, item), meminfo=None)
            return out._getvalue()

        if rank > 1:
            return kind(types.int64, types.UniTuple(types.int64, rank)), generate
        return kind(types.int64, types.int64), generate

    return view


def of_words(signature: Any, generate: Callable[..., Any], n: int) -> Any:
    """A machine form with ``n`` arguments; numba takes their number from the rule, which is therefore made from text."""
    namespace: dict[str, Any] = {"signature": signature, "generate": generate}
    names = "".join(f", a{i}" for i in range(n))
    exec(f"def rule(typing{names}):\n    return signature, generate\n", namespace)
    return intrinsic(namespace["rule"])


def external(name: str, result: types.Type, llvm_result: ir.Type, n: int, widths: dict[int, ir.Type] | None = None) -> Any:
    """A C function by its symbol, with int64 arguments (narrowed according to ``widths``)."""
    parameters = [(widths or {}).get(i, _I64) for i in range(n)]

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        narrowed = [builder.trunc(a, p) if p is not _I64 else a for a, p in zip(args, parameters, strict=True)]
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(llvm_result, parameters), name)
        out = builder.call(function, narrowed)
        return context.get_dummy_value() if llvm_result is _VOID else out

    return of_words(result(*[types.int64] * n), generate, n)


def by_address(n: int) -> Any:
    """``call(address, *args)`` of a C function with ``n`` int64 arguments and an int64 result."""
    kind = ir.FunctionType(_I64, [_I64] * n)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return of_words(types.int64(*[types.int64] * (n + 1)), generate, n + 1)


_aligned_alloc = external("aligned_alloc", types.int64, _I64, 2)
_madvise = external("madvise", types.int32, _I32, 3, {2: _I32})
_memcpy = external("memcpy", types.int64, _I64, 3)
_memset = external("memset", types.int64, _I64, 3, {1: _I32})
_clock_gettime = external("clock_gettime", types.int32, _I32, 2, {0: _I32})
free = external("free", types.void, _VOID, 1)

_OPTIONS = {
    "nogil": True, "error_model": "numpy", "boundscheck": False, "_nrt": False,
    "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip


def _compiled(function: F) -> F:
    dispatcher: F = numba.njit(**_OPTIONS)(function)
    return dispatcher


@_compiled
def alloc(nbytes: int) -> int:
    if HAS_HUGE_PAGES and nbytes >= 2 * HUGE_PAGE_BYTES:
        rounded = (nbytes + 4095) // 4096 * 4096
        address: int = _aligned_alloc(HUGE_PAGE_BYTES, rounded)
        if address != 0:
            _madvise(address, rounded, MADV_HUGEPAGE)
        return address
    address = _aligned_alloc(64, max(64, (nbytes + 63) // 64 * 64))
    return address


@_compiled
def copy_bytes(to: int, source: int, nbytes: int) -> None:
    if nbytes > 0:
        _memcpy(to, source, nbytes)


@_compiled
def fill_bytes(address: int, byte: int, nbytes: int) -> None:
    if nbytes > 0:
        _memset(address, byte, nbytes)


@intrinsic
def _stack_words(typing: Any) -> Any:
    """The address of two int64 on the stack."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(_I64, 2)), _I64)

    return types.int64(), generate


_CLOCK_MONOTONIC = 1


@_compiled
def clock_ns() -> int:
    spec = _stack_words()
    _clock_gettime(_CLOCK_MONOTONIC, spec)
    nanoseconds: int = load_i64(spec) * 1_000_000_000 + load_i64(spec + 8)
    return nanoseconds


@intrinsic
def call_kernel(typing: Any, function: Any, argv: Any, n: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I32, [_I64, _I64])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return types.int32(types.int64, types.int64, types.int64), generate
