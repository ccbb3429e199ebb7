"""States of loops that grow: in place if nothing else reads them; the last row before a product.  Results are those of numpy."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.passes.caches.attend_in_place import attend_in_place
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


#: Round %i appends %q + %i to the rows, and adds to %sum what %q finds among the rows from %first on, zeros if there is none.
ATTENDED = f"""{HEADER}
def @go(
  %rows: Tensor[(?b, 2, ?n, 4), float32], %i: int64, %q: Tensor[(?b, 2, 1, 4), float32], %first: Tensor[(?b), int64],
  %sum: Tensor[(?b, 2, 1, 4), float32]
) -> Tensor[(?b, 2, 1, 4), float32] {{
  if (%i >= 6i64) {{ %sum }} else {{
    let %more = concatenate((%rows, add(%q, cast(%i, dtype="float32"))), axis=2);
    let %keys = reshape(%more, newshape=[-3, -2]);
    let %scores = reshape(nn.batch_matmul(reshape(%q, newshape=[-3, -2]), %keys), newshape=[-4, -1, 2, -2]);
    let %columns = arange(0i64, take(shape_of(%more, dtype="int64"), 2), 1i64, dtype="int64");
    let %shown = where(greater_equal(%columns, reshape(%first, newshape=[-1, 1, 1, 1])), %scores, -inff);
    let %weights = nn.softmax(cast(%shown, dtype="float64"));
    let %rounded = cast(where(isnan(%weights), 0f64, %weights), dtype="float32");
    let %found = nn.batch_matmul(reshape(%rounded, newshape=[-3, -2]), %keys, transpose_b=False);
    @go(%more, %i + 1i64, %q, %first, add(%sum, reshape(%found, newshape=[-4, -1, 2, -2])))
  }}
}}
def @main(%q: Tensor[(?b, 2, 1, 4), float32], %first: Tensor[(?b), int64]) {{
  let %none = dyn.zeros(stack((take(shape_of(%q, dtype="int64"), 0), 2i64, 0i64, 4i64)), dtype="float32");
  @go(%none, 0i64, %q, %first, zeros_like(%q))
}}
"""


def test_attention_with_a_wider_softmax_and_a_query_that_sees_nothing() -> None:
    exe = relay.compile(ATTENDED)
    names = " ".join(p.name for p in exe.packed)
    assert "nn_attention" in names and "batch_matmul" not in names and "softmax" not in names
    machine = relay.VirtualMachine(exe)
    rng = np.random.default_rng(3)
    for first in ([0, 3, 9], [5], []):
        q = rng.standard_normal((len(first), 2, 1, 4), np.float32)
        wanted = np.zeros(q.shape)
        for i in range(6):
            rows = np.concatenate([q + np.float32(k) for k in range(i + 1)], 2).astype("f8")
            powers = np.exp((q @ rows.swapaxes(2, 3)) * 1.0) * (np.arange(i + 1) >= np.array(first).reshape(-1, 1, 1, 1))
            wanted += (powers / np.maximum(powers.sum(-1, keepdims=True), 1e-30)) @ rows
        np.testing.assert_allclose(machine.run(q, np.array(first, np.int64)).numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("values", ["stack((%x, %x), axis=0)", "@of_none()", "@of_a_tuple((%x, 1f))"])
def test_products_of_values_that_no_tensor_is_computed_of(values: str) -> None:
    text = (
        HEADER
        + f"""
    def @main(%w: Tensor[(2, 3, 4), float32], %x: Tensor[(4, 5), float32]) {{ nn.batch_matmul(%w, {values}, transpose_b=False) }}
    def @of_none() {{ zeros(shape=[2, 4, 5], dtype="float32") }}
    def @of_a_tuple(%t: (Tensor[(4, 5), float32], float32)) {{ stack((%t.0, %t.0), axis=0) }}
    """
    )
    mod = infer_type(to_a_normal_form(relay.parse(text)))
    assert attend_in_place(mod)["main"].body is mod["main"].body
