"""Products of halves to float32: exact sums, for sizes around every tile, on each way that a product is computed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.tensor_types import HALVES, numpy_dtype

from ...programs import HEADER
from .opaque_kernels import run

RNG = np.random.default_rng(7)


def eighths(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Numbers whose sums of products are exact in float32."""
    return (RNG.integers(-8, 9, shape) / 8).astype(numpy_dtype(dtype))


def flipped(a: np.ndarray, is_flipped: bool) -> np.ndarray:
    return np.ascontiguousarray(a.swapaxes(-1, -2)) if is_flipped else a


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("transpose_b", [False, True])
def test_the_bodies(dtype: str, transpose_b: bool) -> None:
    """As plain Python, with every load and store checked."""
    ways = {"rows": [(1, 7, 17), (5, 3, 33), (7, 4, 0), (9, 1, 16)], "tiles": [(0, 3, 2), (3, 17, 20), (2, 40, 0)]}
    ways["blocks"] = [(2, 3, 0), (3, 2, 5)]
    for implementation, all_sizes in ways.items():
        for m, n, k in all_sizes:
            a, b = eighths((m, k), dtype), eighths((k, n), dtype)
            given = {"out_dtype": "float32", "transpose_b": transpose_b, "implementation": implementation}
            found = run("nn.matmul", [a, flipped(b, transpose_b)], **given).outputs[0]
            np.testing.assert_array_equal(found, a.astype("f") @ b.astype("f"))
            several = run("nn.batch_matmul", [np.stack([a, -a]), flipped(b, transpose_b)[None]], **given).outputs[0]
            np.testing.assert_array_equal(several, np.stack([found, -found]))


@pytest.mark.parametrize("dtype", HALVES)
def test_programs_read_the_halves_of_parameters(dtype: str) -> None:
    """Weights that are no constants: sizes and transpositions by which the product is computed in another way."""
    sizes = [
        (0, 5, 3),
        (1, 1, 1),
        (1, 3, 40),
        (3, 70, 17),
        (8, 130, 520),
        (16, 4, 600),
        (17, 33, 513),
        (75, 129, 0),
        (150, 65, 520),
    ]
    for op, (transpose_a, transpose_b) in itertools.product(
        ("matmul", "batch_matmul"), itertools.product([False, True], repeat=2)
    ):
        around = "3, " if op == "batch_matmul" else ""
        types = f"%x: Tensor[({around}?a, ?b), {dtype}], %y: Tensor[({around}?c, ?d), {dtype}]"
        call = f'nn.{op}(%x, %y, transpose_a={transpose_a}, transpose_b={transpose_b}, out_dtype="float32")'
        exe = relay.compile(f"{HEADER}def @main({types}) {{ {call} }}")
        assert not any(node.op == "cast" for packed in exe.packed for node in packed.group.nodes)
        machine = relay.VirtualMachine(exe)
        for m, n, k in sizes:
            batch = (3,) if around else ()
            a, b = eighths((*batch, m, k), dtype), eighths((*batch, k, n), dtype)
            found = machine.run(flipped(a, transpose_a), flipped(b, transpose_b)).numpy()
            np.testing.assert_array_equal(found, a.astype("f") @ b.astype("f"))
