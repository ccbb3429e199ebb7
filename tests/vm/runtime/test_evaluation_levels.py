"""The optimization of kernels that fold constants: they run once, so few bytes are not worth it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.op import get
from relayvm.ops.native.jit.native_compiler import UNOPTIMIZED
from relayvm.vm.runtime import evaluate as evaluation


@pytest.mark.parametrize(
    ("name", "size", "levels"), [("negative", 7, UNOPTIMIZED), ("sum", 7, None), ("negative", evaluation.FEW_BYTES, None)]
)
def test_few_bytes_are_evaluated_by_code_that_is_not_optimized(
    monkeypatch: pytest.MonkeyPatch, name: str, size: int, levels: Any
) -> None:
    """But for sums, whose order the optimization decides."""
    given, address = [], evaluation.kernel_address
    monkeypatch.setattr(evaluation, "kernel_address", lambda group, levels: given.append(levels) or address(group, levels))
    monkeypatch.setattr(evaluation, "_prepared", {})
    x, op = np.ones(size, "float32"), get(name)
    found = evaluation.evaluate(op, [x], op.attrs(), open_sizes=True)
    np.testing.assert_array_equal(found, {"negative": -x, "sum": x.sum()}[name])
    assert given == [levels]
