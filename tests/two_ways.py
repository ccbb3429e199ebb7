"""An operator with two implementations, of which the one that is taken without records is slower at large sizes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from relayvm.ops.core.implementation import Kernel
from relayvm.ops.core.op import REGISTRY, Op, OpPattern
from relayvm.ops.native.memory import generic
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, Operand, register_shape_func

NAME = "test.two_ways"
SLOW, FAST = "slow", "fast"


@dataclass(frozen=True)
class TwoWaysAttrs:
    """``steps``: how much slower the slow one is."""

    steps: int = 50


@generic
def slow(data, out, steps):  # type: ignore[no-untyped-def]
    """Twice the input, after multiplications that nobody needs but no compiler can leave out: they might give a NaN."""
    for i in range(len(data)):
        value = data[i]
        for _ in range(steps):
            value = value * value - data[i]
        out[i] = data[i] + data[i] if value == value else value
    return 0


@generic
def fast(data, out, steps):  # type: ignore[no-untyped-def]
    """Twice the input."""
    for i in range(len(data)):
        out[i] = data[i] + data[i]
    return 0


@contextmanager
def two_ways() -> Iterator[None]:
    """While this is open, the operator is there."""

    @register_shape_func(NAME, data_dependent=False)
    def shape(inputs: tuple[Operand, ...], attrs: TwoWaysAttrs) -> tuple[Any, ...]:
        return inputs[0].shape

    Op(
        name=NAME,
        doc="Twice the input.",
        inputs=("data",),
        attrs=TwoWaysAttrs,
        pattern=OpPattern.OPAQUE,
        dtype=lambda dtypes, attrs: dtypes[0],
        kernels=(Kernel(SLOW, slow), Kernel(FAST, fast)),
    )
    try:
        yield
    finally:
        del REGISTRY[NAME], SHAPE_FUNCS[NAME]


def program(size: str = "?n", dtype: str = "float32", steps: int = TwoWaysAttrs.steps) -> str:
    """A program that calls it twice, for arrays of ``size``."""
    return f"""#[version = "0.0.5"]
        def @main(%x: Tensor[({size}), {dtype}]) {{
          let %y = test.two_ways(%x, steps={steps});
          test.two_ways(exp(%y), steps={steps})
        }}"""
