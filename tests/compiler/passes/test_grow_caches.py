"""States of loops that grow: in place if nothing else reads them; the last row before a product.  Results are those of numpy."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.passes.caches.grow_caches import grow_caches
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.reordering.gather_before_product import gather_before_product
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ...programs import HEADER

#: Round %i appends %row + %i, and adds the sum of all rows to %total.
LOOP = """
def @grow(%rows: Tensor[(2, ?n, 3), float32], %total: float32, %i: int64, %row: Tensor[(2, ?m, 3), float32]) -> RESULT {
  if (%i >= 70i64) { END } else {
    let %more = concatenate((%rows, add(%row, cast(%i, dtype="float32"))), axis=1);
    @grow(%more, add(%total, sum(%more)), %i + 1i64, %row)
  }
}
def @main(%rows: Tensor[(2, ?n, 3), float32], %row: Tensor[(2, ?m, 3), float32]) { @grow(%rows, 0f, 0i64, %row) }
"""
READ = HEADER + LOOP.replace("RESULT", "float32").replace("END", "%total")
RETURNED = HEADER + LOOP.replace("RESULT", "Tensor[(2, ?, 3), float32]").replace("END", "%rows")


def test_a_state_that_grows_is_a_buffer() -> None:
    mod = infer_type(to_a_normal_form(relay.parse(READ)))
    assert set(grow_caches(mod).functions) == {"grow", "grow_in_place", "main"}
    machine = relay.VirtualMachine(relay.compile(relay.parse(READ)))
    for n, m in ((0, 1), (5, 1), (3, 2), (1, 0)):
        rows, row = np.ones((2, n, 3), "f"), np.full((2, m, 3), 0.5, "f")
        total = 0.0
        grown = rows
        for i in range(70):
            grown = np.concatenate([grown, row + np.float32(i)], 1)
            total += float(grown.sum(dtype="f8"))
        assert machine.run(rows, row).numpy() == pytest.approx(total, rel=1e-4)


def test_a_state_that_is_returned_stays() -> None:
    mod = infer_type(to_a_normal_form(relay.parse(RETURNED)))
    assert set(grow_caches(mod).functions) == {"grow", "main"}


@pytest.mark.parametrize(("index", "moves"), [('-1, axis=1, mode="wrap"', True), ("0, axis=2", False), ("[0, 1], axis=1", False)])
def test_a_row_is_taken_before_the_product(index: str, moves: bool) -> None:
    params = "%x: Tensor[(?b, ?n, 4), float32], %w: Tensor[(4, 5), float32]"
    text = f"{HEADER}def @main({params}) {{ take(nn.matmul(%x, %w), {index}) }}"
    mod = infer_type(to_a_normal_form(relay.parse(text)))
    found = gather_before_product(mod)
    assert (found["main"].body is not mod["main"].body) == moves
    x, w = np.arange(24, dtype="f").reshape(2, 3, 4), np.arange(20, dtype="f").reshape(4, 5)
    number, axis = (-1, 1) if moves else (0, 2) if index[0] == "0" else ([0, 1], 1)
    result = relay.VirtualMachine(relay.compile(text)).run(x, w).numpy()
    np.testing.assert_allclose(result, np.take(x @ w, number, axis), rtol=1e-6)
