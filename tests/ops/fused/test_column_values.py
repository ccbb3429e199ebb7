"""Values of the innermost loop alone: computed once, with the bits that each row would compute."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.compiler.passes.operator_clusters import Cluster
from relayvm.ops.codegen import kernel_source
from relayvm.ops.core.op import get

from .reductions.row_groups import kernels
from .run_group import compiled, evaluate, one_call, plain


def rows_of(text):
    """The statements inside the innermost of the loops that follow the arrays."""
    return text.rpartition("for i")[2]


def resized(shape, size, **attrs):
    x = np.random.default_rng(0).normal(size=shape).astype("float32")
    return x, one_call("image.resize2d", [x], get("image.resize2d").attrs(size=size, **attrs))


@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
def test_positions_of_columns_are_not_computed_in_each_row(method):
    text = kernel_source(resized((1, 2, 4, 5), (8, 9), method=method)[1]).text
    assert "alloc(" in text and "free(" in text
    assert "floor" not in rows_of(text) and " / " not in rows_of(text)


@pytest.mark.parametrize("run", [compiled, plain])
@pytest.mark.parametrize("size", [(8, 9), (1, 9), (8, 1), (0, 9), (8, 0)])
def test_bits_are_those_of_a_column_alone(run, size):
    # a result of one column has its own positions: each column of a larger one is compared with it by linear data
    x, group = resized((1, 2, 4, 5), size, method="linear")
    x[...] = np.arange(5, dtype="float32")
    status, (found,) = evaluate(group, [x], run)
    assert status == 0 and found.shape == (1, 2, *size)
    at = np.clip((np.arange(size[1]) + 0.5) * 5 / max(size[1], 1) - 0.5, 0, 4)
    np.testing.assert_allclose(found, np.broadcast_to(at, found.shape), rtol=1e-6)


COSTLY = 'exp(tanh(arange(0f, 5f, 1f, dtype="float32")))'


@pytest.mark.parametrize(("body", "is_held"), [
    (f"multiply(%x, {COSTLY})", True),
    ('multiply(%x, arange(0f, 5f, 1f, dtype="float32"))', False),  # cheap
    (f'multiply(take(%x, %rows, axis=0, mode="fast"), {COSTLY})', False),  # a check in the loops would leave the memory
])  # fmt: skip
def test_costly_values_are_held_unless_the_loops_may_end_early(body, is_held, monkeypatch):
    monkeypatch.setattr(Cluster, "better_stored", lambda *_: set())  # which would compute these in a kernel of their own
    ((group, _),) = kernels(f"def @main(%x: Tensor[(?n, 5), float32], %rows: Tensor[(?m), int64]) {{ {body} }}")
    assert ("alloc(" in kernel_source(group).text) == is_held
