"""One operator as a program: built, compiled for a device, run, and compared with numpy."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.op import Op
from relayvm.ops.core.tensor_types import TensorType, TupleType, is_float, numpy_dtype
from relayvm.shape_funcs.symbolic.dim import Dim, const, dim, sym

from .recipe import Call, attrs_of, flags_of, regroup, upper_bound

#: What a result may be off, relative to 1 and to itself: a few roundings of the dtype.
TOLERANCE = {"float64": 1e-11, "float32": 2e-5, "float16": 3e-3, "bfloat16": 2.5e-2}


@dataclass(frozen=True)
class Mode:
    """``sizes``: how the program says them: ``static``, ``any`` (``?``) or ``named`` (equal sizes have one name);
    ``constants``: flagged inputs are constants of the program."""

    sizes: str
    fuse: bool = True
    constants: bool = False

    def __str__(self) -> str:
        return f"{self.sizes}{'' if self.fuse else ', not fused'}{', constants' if self.constants else ''}"


def dims_of(op: Op, calls: Sequence[Call], mode: Mode) -> list[tuple[Dim, ...]]:
    """The dims of each input in a program that all of ``calls`` can use."""
    flags = flags_of(op, calls[0])
    rows = []
    for k, x in enumerate(calls[0].flat):
        row = []
        for axis, size in enumerate(x.shape):
            seen = tuple(c.flat[k].shape[axis] for c in calls)
            if mode.sizes == "static" or flags[k] or (k, axis) in calls[0].fixed:
                row.append(dim(size))
            elif mode.sizes == "any":
                row.append(relay.Any())
            else:
                # a size that is the same in every call may be part of what the operator is: it stays
                row.append(dim(size) if len(calls) > 1 and len(set(seen)) == 1 else sym("n" + "_".join(map(str, seen))))
        rows.append(tuple(row))
    return rows


def _times_one(x: Any, dtype: str, ones: dict[str, Any]) -> Any:
    """A call to fuse: the same values, combined with a neutral value that the compiler does not know."""
    one = ones.setdefault(dtype, relay.var(f"one_{dtype}", (), dtype))
    return relay.logical_and(x, one) if dtype == "bool" else relay.multiply(x, one)


def program(op: Op, made: Call, dims: Sequence[tuple[Dim, ...]], mode: Mode) -> tuple[Any, list[Any]]:
    """The module and its further arguments, which are ones."""
    params, args, ones = [], [], {}
    for k, (x, row, flag) in enumerate(zip(made.flat, dims, flags_of(op, made), strict=True)):
        if flag and mode.constants:
            args.append(relay.const(x))
            continue
        params.append(relay.var(f"x{k}", row, x.dtype.name))
        args.append(params[-1] if flag else _times_one(params[-1], x.dtype.name, ones))
    structured = [relay.Tuple(list(a)) if isinstance(a, tuple) else a for a in regroup(made, args)]
    attrs = attrs_of(op, made)
    dtypes = op.dtype(made.dtypes(), attrs)
    result = relay.Call(op, structured, attrs)
    if isinstance(dtypes, tuple):
        body = relay.Tuple([_times_one(relay.TupleGetItem(result, i), d, ones) for i, d in enumerate(dtypes)])
    else:
        body = _times_one(result, dtypes, ones)
    module = relay.IRModule({"main": relay.Function([*params, *ones.values()], body)})
    return module, [np.ones((), numpy_dtype(d)) for d in ones]


class Compiled:
    """A program that several calls share."""

    def __init__(self, op: Op, calls: Sequence[Call], mode: Mode, device: str) -> None:
        self.op, self.mode = op, mode
        self.dims = dims_of(op, calls, mode)
        module, self.ones = program(op, calls[0], self.dims, mode)
        exe = relay.compile(module, target=device, fuse=mode.fuse)
        (main,) = (f for f in exe.functions if f.name == "main")
        self.result, self.has_constants = main.result, bool(exe.constants)
        #: Nothing of the results' types is left for run time.
        self.knows_all = mode.sizes == "static" and not upper_bound(op) and (mode.constants or not any(op.data_dependent))
        self.vm = relay.VirtualMachine(exe)

    def run(self, made: Call) -> list[np.ndarray]:
        """The results of one call.  Raises the exceptions of the machine."""
        flags = flags_of(self.op, made)
        args = [x for x, flag in zip(made.flat, flags, strict=True) if not (flag and self.mode.constants)]
        given = self.vm.run(*args, *self.ones)
        # copies, so that nothing of the machine's memory is held
        return [np.array(r.numpy()) for r in given] if isinstance(self.result, TupleType) else [np.array(given.numpy())]

    def refuses(self, made: Call) -> None:
        """Check that the run fails with the expected message."""
        assert isinstance(made.wanted, str)
        with pytest.raises(relay.VMError, match=made.wanted):
            self.run(made)
        gc.collect()  # the exception and its frames, which hold the arguments, are a cycle

    def agrees(self, made: Call) -> None:
        """Check the inferred type, the shapes and the elements against ``made.wanted``."""
        found = self.run(made)
        types = self.result.fields if isinstance(self.result, TupleType) else (self.result,)
        assert len(found) == len(types) == len(made.wanted)
        for ty, result, wanted in zip(types, found, made.wanted, strict=True):
            assert isinstance(ty, TensorType)
            assert result.dtype.name == ty.dtype
            assert result.shape == wanted.shape, "the kernel's shape is not numpy's"
            assert len(ty.shape) == wanted.ndim, "the inferred rank is not numpy's"
            known = [const(d) for d in ty.shape]
            assert all(k in (None, n) for k, n in zip(known, wanted.shape, strict=True)), f"the type {ty} says {wanted.shape}"
            if self.knows_all:
                assert None not in known, f"the type {ty} could say {wanted.shape}"
            same(result, wanted, made.tolerance)
        # a constant that was copied to the device stays there
        assert self.has_constants or self.vm.memory["live_bytes"] == 0, "memory is held after the run"


def same(result: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    """Elements: floats within the dtype's tolerance, all others exactly."""
    name = result.dtype.name
    if not is_float(name):
        np.testing.assert_array_equal(result, wanted.astype(name))
        return
    allowed = TOLERANCE[name] * tolerance
    with np.errstate(over="ignore"):
        rounded = np.asarray(wanted, np.float64).astype(result.dtype).astype(np.float64)
    np.testing.assert_allclose(result.astype(np.float64), rounded, rtol=allowed, atol=allowed)


def grouped(op: Op, calls: Mapping[str, Call]) -> Iterable[list[str]]:
    """The sizes whose calls one program can serve: the same attributes, ranks and fixed sizes."""
    found: dict[Any, list[str]] = {}
    flags = None
    for size, made in calls.items():
        flags = flags_of(op, made)
        fixed = tuple(n for k, x in enumerate(made.flat) for axis, n in enumerate(x.shape) if flags[k] or (k, axis) in made.fixed)
        key = (repr(made.attrs), tuple(x.ndim for x in made.flat), fixed, [len(i) for i in made.inputs if isinstance(i, tuple)])
        found.setdefault(repr(key), []).append(size)
    return found.values()
