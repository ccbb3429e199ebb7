"""Runs on the rows of a table: rows together, apart and as the machine alone runs them are the same; refusals name the row."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import relayvm as relay
from relayvm.cluster.row_runs import Columns, RowRuns
from relayvm.serving.batches import batch_plan
from relayvm.serving.pool import arrays
from relayvm.serving.protocol.served_model import ServedModel

HEADER = '#[version = "0.0.5"]\n'
#: The second result has a size that depends on values, so it is a column of arrays.
BATCHED = "def @main(%x: Tensor[(?n, ?m), float32], %k: Tensor[(?n), float32]) { (nn.softmax(%x), %k * 2f) }"
APART = "def @main(%x: Tensor[(?n, 2), float32], %w: float32) { (sum(%x) + %w, argwhere(%x)) }"
PLAIN = Columns({}, {}, None)


def opened(program: str) -> tuple[ServedModel, Callable[[Any], list[np.ndarray]]]:
    exe = relay.compile(HEADER + program)
    return ServedModel.of("rows", "1", exe), functools.partial(arrays, relay.VirtualMachine(exe))


@pytest.fixture(scope="module")
def batched() -> tuple[ServedModel, Callable[[Any], list[np.ndarray]]]:
    return opened(BATCHED)


@pytest.fixture(scope="module")
def apart() -> tuple[ServedModel, Callable[[Any], list[np.ndarray]]]:
    return opened(APART)


def column(values: list[np.ndarray]) -> np.ndarray:
    """A column of tensors whose sizes may differ, as Ray Data has it."""
    made = np.empty(len(values), object)
    for i, value in enumerate(values):
        made[i] = value
    return made


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32")


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8))
def test_rows_together_are_rows_apart(batched: Any, sizes: list[tuple[int, int]]) -> None:
    model, run = batched
    table = {"id": np.arange(len(sizes)), "x": column([drawn(n, m) for n, m in sizes]), "k": column([drawn(n) for n, _ in sizes])}
    runs = []
    together = RowRuns(model, batch_plan(model, ["n"]), PLAIN)(table, lambda a: runs.append(1) or run(a))  # type: ignore[func-returns-value]
    alone = RowRuns(model, None, PLAIN)(table, run)
    assert list(together) == list(alone) == ["id", "result.0", "result.1"]
    assert len(runs) == len({m for _, m in sizes})  # one for all rows that agree in the other sizes
    for name in ("result.0", "result.1"):
        assert [a.shape for a in together[name]] == [a.shape for a in alone[name]]
        for a, b in zip(together[name], alone[name], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


@given(st.lists(st.integers(0, 4), max_size=6))
def test_rows_without_the_batch_axis_are_rows_with_it(batched: Any, widths: list[int]) -> None:
    model, run = batched
    plan = batch_plan(model, ["n"])
    with_axis = {"x": column([drawn(1, m) for m in widths]), "k": np.arange(len(widths), dtype="float32")[:, None]}
    without = {"x": column([drawn(1, m)[0] for m in widths]), "k": np.arange(len(widths), dtype="float32")}
    a, b = (RowRuns(model, plan, PLAIN)(table, run) for table in (with_axis, without))
    for one, other in zip(a["result.0"], b["result.0"], strict=True):
        assert other.ndim == 1 and np.array_equal(one[0], other)
    assert [float(v[0]) for v in a["result.1"]] == [float(v) for v in b["result.1"]]


@given(st.lists(st.integers(0, 4), max_size=5))
def test_each_row_has_the_result_of_its_run(apart: Any, sizes: list[int]) -> None:
    model, run = apart
    table = {
        "rows": column([drawn(n, 2) for n in sizes]),
        "w": np.arange(len(sizes), dtype="float32"),
        "id": np.arange(len(sizes)),
    }
    made = RowRuns(model, None, Columns({"x": "rows"}, {"result.0": "total", "result.1": "where"}, ("id",)))(table, run)
    assert list(made) == ["id", "total", "where"]
    assert made["total"].shape == (len(sizes),) and made["total"].dtype == "float32"
    assert made["where"].dtype == object  # also if all sizes are equal: the form depends on the type alone
    for i, n in enumerate(sizes):
        want = run([drawn(n, 2), np.float32(i)])
        assert made["total"][i] == want[0] and np.array_equal(made["where"][i], want[1])


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(relay.RelayError) as caught:
        call()
    return str(caught.value)


def test_refusals(apart: Any, batched: Any) -> None:
    model, run = apart
    good = {"x": column([drawn(3, 2)] * 2), "w": np.zeros(2, "float32")}
    runs = RowRuns(model, None, PLAIN)
    assert refused(lambda: runs({"y": good["x"], "w": good["w"]}, run)) == (
        "error: the rows have no column 'x'\nhelp: their columns: y, w; name the columns of inputs: columns={...}"
    )
    assert refused(lambda: runs(good | {"result.0": good["w"]}, run)) == (
        "error: the rows have a column 'result.0', which is also the column of a result\n"
        "help: name the columns of results: results={...}, or leave the column out: keep=[...]"
    )
    assert refused(lambda: runs(good | {"x": column([drawn(3, 2), drawn(3, 5)])}, run)).startswith(
        "error: row 1 of the batch: @main: %x has size 5 on axis 1, not 2\n"
    )
    assert refused(lambda: RowRuns(model, None, Columns({"z": "x"}, {}, None))) == (
        "error: predictor: columns names 'z', no input of the model\nhelp: its inputs: x, w"
    )
    assert refused(lambda: RowRuns(model, None, Columns({}, {"result": "y"}, None))).startswith(
        "error: predictor: results names 'result', no result of the model"
    )
    assert refused(lambda: RowRuns(model, None, Columns({}, {"result.0": "id"}, ("id",)))) == (
        "error: predictor: the column 'id' would have two values\nhelp: name the columns of results: results={...}"
    )
    model, run = batched
    joined = RowRuns(model, batch_plan(model, ["n"]), PLAIN)
    for wrong in (drawn(2, 3).astype("float64"), drawn(2, 3).astype("float16"), drawn(2)[0], drawn(2, 3, 1)):
        table = {"x": column([drawn(2, 3), drawn(1, 3), wrong]), "k": column([drawn(2), drawn(1), drawn(2)])}
        assert refused(functools.partial(joined, table, run)).startswith("error: row 2 of the batch: @main: ")


def test_predictor_with_a_stand_in_for_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    stored: list[np.ndarray] = []
    context = types.SimpleNamespace(get_assigned_resources=lambda: {"CPU": 0.5})
    fake = types.SimpleNamespace(
        put=lambda value: stored.append(value) or len(stored) - 1, get=stored.__getitem__, get_runtime_context=lambda: context
    )
    monkeypatch.setitem(__import__("sys").modules, "ray", fake)
    try:
        for model in (relay.parse(HEADER + BATCHED), relay.compile(HEADER + BATCHED)):
            found = relay.ray.predictor(model, batch=["n"])()
            assert relay.get_num_threads() == 1
            made = found({"x": np.ones((3, 4), "float32"), "k": np.arange(3, dtype="float32")})
            assert np.array_equal(made["result.1"], [0, 2, 4]) and np.allclose(np.stack(made["result.0"]), 0.25)
    finally:
        relay.set_num_threads(None)
    assert refused(lambda: relay.ray.predictor(relay.parse(HEADER + APART), batch=["n"])).startswith(
        "error: the model model cannot be batched by ?n: the input w is "
    )


def test_ray_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    text = "error: relayvm.ray needs the package ray, which is not installed\nhelp: pip install 'relayvm[ray]'"
    assert refused(lambda: relay.ray.predictor("model.relay")) == text
    assert refused(lambda: relay.ray.deployment(["model.relay"])) == text
