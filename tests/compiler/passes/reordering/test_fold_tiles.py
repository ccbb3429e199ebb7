"""Products by repeated matrices: the bits of the program without the pass, and programs that stay as they are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call
from relayvm.compiler.passes.infer_type import infer_sizes
from relayvm.compiler.passes.reordering.fold_tiles import fold_tiles
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.ops.core.tensor_types import numpy_dtype

from ....programs import HEADER

BY_VECTOR = 'let %s = cast(%r, dtype="int64"); let %t = concatenate((%s, [1i64, 1i64])); dyn.tile(%b, %t)'
#: The repeated matrices, the shape of ``%b``, and whether the product takes them as they are.
CASES = {
    "known": ("tile(%b, reps=[3, 1, 1])", "(?g, ?n, ?k)", True),
    "fewer axes": ("tile(%b, reps=[1])", "(?g, ?n, ?k)", True),
    "open": (BY_VECTOR, "(?g, ?n, ?k)", True),
    "rows too": ("tile(%b, reps=[3, 2, 1])", "(?g, ?n, ?k)", False),
    "no matrices": ("tile(%b, reps=[3, 2, 1])", "(?g, 0, ?k)", False),
    "of one matrix": ("tile(%b, reps=[3, 1, 1])", "(?n, ?k)", False),
    "unknown axes": ("dyn.tile(%b, %v)", "(?g, ?n, ?k)", False),
    "more axes": ("reshape(tile(%b, reps=[2, 1, 1, 1]), newshape=[-3, 0, 0])", "(?g, ?h, ?n, ?k)", False),
    "plain": ("%b", "(?g, ?n, ?k)", False),
}
#: Sizes whose products are of few rows, of tiles, of several bands of rows and groups of columns, and of a BLAS.
SIZES = ((33, 200, 64), (5, 40, 7), (300, 130, 40), (20, 9, 30), (1, 700, 40), (0, 3, 4), (3, 0, 4), (3, 4, 0), (40, 70, 600))

DTYPES = ("float32", "float64", "float16", "bfloat16")


def program(case: str, dtype: str = "float32", given: str = "") -> str:
    matrices, shape, _ = CASES[case]
    params = f"%a: Tensor[(?, ?, ?), {dtype}], %b: Tensor[{shape}, {dtype}], %r: Tensor[(1), int32], %v: Tensor[(3), int64]"
    *before, last = matrices.split("; ")
    product = f"let %m = {last}; nn.batch_matmul(%a, %m{given})"
    return f"{HEADER}def @main({params}) {{ {'; '.join([*before, product])} }}"


def operators(text: str, forced: tuple[str, ...] = ()) -> set[str]:
    """The operators of a program after the pass, but those whose values are dead."""
    mod = fold_tiles(infer_sizes(to_a_normal_form(relay.parse(text))), forced)
    found = relay.transform.DeadCodeElimination()(mod)
    return {value.op.name for value in values(found["main"].body) if isinstance(value, Call)}


@pytest.mark.parametrize("case", CASES)
def test_tiles_are_folded(case: str) -> None:
    found = operators(program(case))
    assert ("nn.tiled_batch_matmul" in found) == CASES[case][-1] != bool(found & {"tile", "dyn.tile", "nn.batch_matmul"}), found
    assert "nn.tiled_batch_matmul" not in operators(program(case), ("nn.batch_matmul",))


def test_products_of_integers_stay() -> None:
    assert "nn.tiled_batch_matmul" not in operators(program("known", "int32"))


def agree(dtype: str, given: str, machines: Sequence[relay.VirtualMachine], *last: np.ndarray) -> None:
    """Assert that two programs have the same bits; the repetitions are a vector of one, or of three without ``last``."""
    rng = np.random.default_rng(len(dtype + given))
    for m, n, k in SIZES:
        of_a, of_b = (k, m) if "_a" in given else (m, k), (k, n) if "_b" in given else (n, k)
        for _ in range(4):
            groups, times = (int(x) for x in rng.integers(0, 4, 2))
            batch = 1 if rng.random() < 0.2 else groups * times
            a, b = (rng.standard_normal(s).astype(numpy_dtype(dtype)) for s in ((batch, *of_a), (groups, *of_b)))
            reps = np.array([times], "int32") if last else np.array([times, 1, 1])
            wanted, found = (x.run(a, b, reps, *last).numpy().tobytes() for x in machines)
            assert found == wanted, (groups, times, batch, m, n, k)


@pytest.mark.parametrize("given", ["", ", transpose_b=False"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_are_those_without_the_pass(dtype: str, given: str) -> None:
    text = relay.parse(program("open", dtype, given))
    machines = [relay.VirtualMachine(relay.compile(text, **settings)) for settings in ({"pass.fold_tiles": "off"}, {})]
    agree(dtype, given, machines, np.zeros(3, "int64"))


@pytest.mark.parametrize("given", ["", ", transpose_b=False", ", transpose_a=True"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_are_those_of_repeated_matrices(dtype: str, given: str) -> None:
    params = f"%a: Tensor[(?, ?, ?), {dtype}], %b: Tensor[(?, ?, ?), {dtype}], %reps: Tensor[(3), int64]"
    bodies = f"nn.batch_matmul(%a, dyn.tile(%b, %reps){given})", f"nn.tiled_batch_matmul(%a, %b, %reps{given})"
    texts = (f"{HEADER}def @main({params}) {{ {body} }}" for body in bodies)
    agree(dtype, given, [relay.VirtualMachine(relay.compile(relay.parse(text), opt_level=1)) for text in texts])


def test_mistakes_are_those_of_the_product() -> None:
    machine = relay.VirtualMachine(relay.compile(relay.parse(program("open"))))
    rest = np.zeros(3, "int64")
    a, b = np.ones((6, 2, 5), "float32"), np.ones((2, 4, 5), "float32")
    np.testing.assert_array_equal(machine.run(a, b, np.array([3], "int32"), rest).numpy(), np.full((6, 2, 4), 5))
    np.testing.assert_array_equal(machine.run(a[:1], b, np.array([3], "int32"), rest).numpy(), np.full((6, 2, 4), 5))
    for inputs in ((a, b, np.array([2], "int32")), (a, b, np.array([-1], "int32")), (a, b[..., 1:], np.array([3], "int32"))):
        with pytest.raises(relay.VMError, match=r"batch_matmul"):
            machine.run(*inputs, rest)
