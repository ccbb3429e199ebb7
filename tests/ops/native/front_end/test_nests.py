"""Loop nests of generated texts: which loops are short, which are not unrolled, and the size of their code."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.codegen import kernel_source
from relayvm.ops.native.front_end import nests
from relayvm.ops.native.jit.native_compiler import compile_object, has_near_constants
from relayvm.vm.runtime.kernels.kernel_addresses import SIGNATURE, kernel_function

NEST = """
for i0 in range(n):
    v1 = i0 * 9
    for i1 in range(7):
        v2 = v1 + i1
        for i2 in range({inner}):
            x[v2 + i2] = y
"""


def loops(inner: str) -> list[ast.For]:
    return [each for each in ast.walk(ast.parse(NEST.format(inner=inner))) if isinstance(each, ast.For)]


@pytest.mark.parametrize(
    ("inner", "short", "outer"),
    [("2", [False, True, True], [False] * 3), ("3", [False, False, True], [True, False, False]),
     ("n", [False] * 3, [True, True, False]), ("384", [False] * 3, [True, True, False])],
)  # fmt: skip
def test_which_loops_are_short_and_which_have_others_inside(inner: str, short: list[bool], outer: list[bool]) -> None:
    assert [nests.is_short(each) for each in loops(inner)] == short
    assert [nests.has_loops(each) for each in loops(inner)] == outer
    assert [nests.has_rows(each) for each in loops(inner)] == [has and not any(outer[k + 1 :]) for k, has in enumerate(outer)]
    assert nests.indices_read(loops(inner)[1]) == ["v1", "v2"]


WINDOWS = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 2, 7, 2, 7, 384), float32]) { transpose(%x, axes=[0, 1, 3, 2, 4, 5]) }"""


@pytest.mark.optimized
def test_the_rows_of_windows_are_compiled_once() -> None:
    """The code had 14 copies of its rows: 24 KiB, and 2.8 s to compile."""
    exe = relay.compile(WINDOWS, target="cpu")
    x = np.random.default_rng(0).normal(size=(3, 2, 7, 2, 7, 384)).astype(np.float32)
    result = relay.VirtualMachine(exe).run(x).numpy()
    np.testing.assert_array_equal(result, x.transpose(0, 1, 3, 2, 4, 5), strict=True)
    (packed,) = exe.packed
    code = compile_object(kernel_function(kernel_source(packed.group)), SIGNATURE).code
    assert len(code) < 12_000 or not has_near_constants()
