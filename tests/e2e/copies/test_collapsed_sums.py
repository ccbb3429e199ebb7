"""Sums to the shape before a broadcast: the result does not depend on when the compiler learns the shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay

from ...programs import HEADER

#: The shape as an argument, as a constant, and as a value that is folded after the sum is expanded.
PROGRAMS = {
    "argument": "def @main(%x: Tensor[(?, ?), int64], %to: Tensor[(2), int64]) { collapse_sum_to(%x, %to) }",
    "folded": """def @main(%x: Tensor[(?, ?), int64], %like: Tensor[(ROWS, COLUMNS), int64], %to: Tensor[(2), int64]) {
  let %at = take(shape_of(%like, dtype="int64"), %to, axis=0);
  collapse_sum_to(%x, %at)
}""",
}


@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize("to", [(1, 5), (2, 1), (1, 1), (2, 5)])
def test_a_shape_that_is_known_early_late_or_never(to: tuple[int, int], target: str) -> None:
    x = np.arange(10).reshape(2, 5)
    wanted = x.sum(tuple(axis for axis in range(2) if to[axis] == 1 != x.shape[axis]), keepdims=True)
    shape = np.array(to)

    def run(text: str, params: dict[str, Any], *arguments: np.ndarray) -> np.ndarray:
        exe = relay.compile(HEADER + text, target=target, params=params)
        return relay.VirtualMachine(exe).run(*arguments).numpy()

    folded = PROGRAMS["folded"].replace("ROWS", str(to[0])).replace("COLUMNS", str(to[1]))
    for found in (
        run(PROGRAMS["argument"], {}, x, shape),
        run(PROGRAMS["argument"], {"to": shape}, x),
        run(folded, {"to": np.array([0, 1])}, x, np.zeros(to, np.int64)),
    ):
        np.testing.assert_array_equal(found, wanted)
        assert found.shape == wanted.shape
