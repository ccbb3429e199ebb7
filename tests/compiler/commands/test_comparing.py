"""Comparing two configurations from Python: results agree or the first difference is named; figures are exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relayvm.compiler.comparison.result_check import PRECISION_TOL, ResultsDiffer, check_agreement
from relayvm.compiler.comparison.run_comparison import PER_ROUND, PRESETS, compare, compare_sides
from relayvm.compiler.compile import compile
from relayvm.compiler.inputs.given_inputs import Wanted, draw, parse_shape, split_option
from relayvm.ops.core.tensor_types import DTYPES
from relayvm.vm.diagnostics.source import ConfigError, InputError

TILE = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, 4), float32], %reps: Tensor[(2), int64]) { dyn.tile(%x, %reps) }
"""
OP, INPUT = {"data_dependence": "op", "place": "off"}, {"data_dependence": "input", "place": "off"}


@pytest.mark.parametrize("n", [0, 1, 1000])
def test_only_flagged_inputs_are_copied(n: int) -> None:
    x = np.ones((n, 4), "float32")
    found = compare(TILE, a=OP, b=INPUT, inputs={"x": x, "reps": np.array([1, 2])}, device="sim", repeat=2)
    copied = found["[memcpy DtoH] bytes"]
    assert (copied.a, copied.b) == (x.nbytes + 16, 16)
    assert found["launches"].change == 0 and found["[memcpy HtoD] bytes"].ratio == 1


def test_inputs_by_position_drawn_and_given() -> None:
    given_all = compare(TILE, inputs=[np.ones((3, 4), "float32"), np.array([1, 2])], repeat=1)
    assert given_all.a.config == given_all.b.config and given_all.a.device == "cpu"
    drawn = compare(TILE, inputs={"reps": np.array([1, 2])}, dims={"n": 3}, seed=5, repeat=1)
    shaped = compare(TILE, inputs={"reps": np.array([1, 2])}, shapes={"x": (3, 4)}, repeat=1)
    assert drawn.a.runs == shaped.b.runs == PER_ROUND
    with pytest.raises(InputError, match="give --dim n=SIZE"):
        compare(TILE, inputs={"reps": np.array([1, 2])}, repeat=1)


def test_executables_are_compared_as_they_are(tmp_path: Path) -> None:
    a, b = (compile(TILE, target="sim", **config) for config in (OP, INPUT))
    inputs = [np.ones((5, 4), "float32"), np.array([1, 1])]
    found = compare(a, other=b, inputs=inputs, repeat=1)
    assert (found.a.config["data_dependence"], found.b.config["data_dependence"]) == ("op", "input")
    assert found["[memcpy DtoH] calls"].change == -1
    with pytest.raises(ConfigError, match="compiled with data_dependence=op, not data_dependence=input"):
        compare(a, b=INPUT, inputs=inputs)
    with pytest.raises(ConfigError, match="compiled with device=sim, not device=cpu"):
        compare(a, inputs=inputs, device="cpu")
    assert compare(a, OP, {**OP, "device": "sim"}, inputs, repeat=1).a.config == found.a.config


def test_programs_with_other_results() -> None:
    half = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, 4), float32]) { %x * 0.5f }\n'
    same = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, 4), float32]) { %x / 2f }\n'
    wrong = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, 4), float32]) { %x * 0.51f }\n'
    x = [np.ones((2, 4), "float32")]
    assert compare(half, other=same, inputs=x, repeat=1)["launches"].change == 0
    with pytest.raises(ResultsDiffer, match=r"result, float32\[2, 4\]: 8 of 8 elements, the first at \[0, 0\]: 0.5 in A, 0.50"):
        compare(half, other=wrong, inputs=x, repeat=1)


def test_many_sides_and_cases() -> None:
    rounds: list[tuple[int, int]] = []
    reps = np.array([1, 2])
    sides = {name: (TILE, config) for name, config in PRESETS["data-dependence"].items()}
    bindings = [{"n": (0,)}, {"x": (7, 4)}]
    found = compare_sides(
        sides, Wanted({"reps": reps}), bindings, device="sim", repeat=2, on_round=lambda done, total: rounds.append((done, total))
    )
    assert found.sides == ("op", "relay", "input", "input_place") and [c.name for c in found.cases] == ["n=0", "x=7,4"]
    assert rounds == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert found["[memcpy DtoH] bytes"].values == (16, 16, 16, 0)
    (copied,) = [row for row in found.tables[1] if row.name == "[memcpy DtoH] bytes"]
    assert copied.values == (7 * 4 * 4 + 16, 7 * 4 * 4 + 16, 16, 0), "Relay flagged all inputs of dyn.tile"
    with pytest.raises(InputError, match="two sides"):
        compare_sides({"a": (TILE, {})}, Wanted())


def test_every_side_is_held_against_the_first() -> None:
    half = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(2), float32]) { %x * 0.5f }\n'
    other = half.replace("0.5f", "0.6f")
    with pytest.raises(ResultsDiffer, match="the results of A and slow differ"):
        compare_sides({"a": (half, {}), "b": (half, {}), "slow": (other, {})}, Wanted(), repeat=1)


def test_the_machines_of_a_comparison_do_not_share_memory_counters() -> None:
    found = compare(TILE, inputs=[np.ones((3, 4), "float32"), np.array([1, 2])], repeat=3, device="sim")
    assert found.a.counters == found.b.counters and len(set(map(str, found.a.counters))) == 1


def test_precisions_agree_within_their_rounding() -> None:
    weight = 'full(0.3f, shape=[4, 8], dtype="float32")'
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, 8), float32]) {{ nn.dense(%x, {weight}) }}'
    for precision in ("float16", "bfloat16", "tf32"):
        found = compare(text, {"precision": precision}, {}, repeat=1, shapes={"x": (3, 8)})
        assert f"rtol {PRECISION_TOL[precision]:g}" in found.method.tolerance


# ---- result check -----------------------------------------------------------------------------------------------------------

arrays = st.integers(0, 5).flatmap(
    lambda n: st.lists(st.floats(-1e6, 1e6, width=32), min_size=n, max_size=n).map(lambda v: np.array(v, "float32"))
)


@given(arrays)
def test_rounding_agrees_and_errors_do_not(a: np.ndarray) -> None:
    check_agreement(a, a * np.float32(1 + 1e-6))
    check_agreement((a, a), (a, a))
    if a.size and np.abs(a).max() > 1e-30:  # smaller ones have too few digits to be wrong by little
        worst = a.copy()
        worst[np.argmax(np.abs(a))] *= np.float32(1.001)
        with pytest.raises(ResultsDiffer, match="1 of"):
            check_agreement(a, worst)


@pytest.mark.parametrize(
    ("a", "b", "words"),
    [
        (np.zeros(2, "float32"), np.zeros(3, "float32"), r"result is float32\[2\] in A and float32\[3\] in B"),
        (np.zeros(2, "float32"), np.zeros(2, "float64"), r"result is float32\[2\] in A and float64\[2\] in B"),
        (np.array([1, 2]), np.array([1, 3]), r"1 of 2 elements, the first at \[1\]: 2 in A, 3 in B"),
        (np.float32(1), np.float32(2), r"1 of 1 elements, the first at \[\]: 1.0 in A, 2.0 in B"),
        (np.float32(np.nan), np.float32(0), r"nan in A, 0.0 in B"),
        (np.float32(np.inf), np.float32(-np.inf), r"inf in A, -inf in B"),
        ((np.ones(1),), np.ones(1), r"result is a tuple of 1 in A and float64\[1\] in B"),
        ((np.ones(1), (np.ones(1), np.ones(2))), (np.ones(1), (np.ones(1), np.zeros(2))), r"result\.1\.1"),
    ],
)
def test_differences_are_named(a: object, b: object, words: str) -> None:
    with pytest.raises(ResultsDiffer, match=words):
        check_agreement(a, b)


def test_what_is_not_finite_agrees_with_itself() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 1], "float32")
    check_agreement(odd, odd.copy())
    check_agreement(np.zeros((0, 3), "int8"), np.zeros((0, 3), "int8"))


# ---- drawn inputs, texts of options --------------------------------------------------------------------------------------------


@given(st.sampled_from(DTYPES), st.lists(st.integers(0, 4), max_size=3).map(tuple), st.integers(0, 2**32))
def test_drawn_values(dtype: str, shape: tuple[int, ...], seed: int) -> None:
    found = draw("x", dtype, shape, seed)
    assert (found.shape, found.dtype.name) == (shape, dtype)
    np.testing.assert_array_equal(found, draw("x", dtype, shape, seed))
    if found.dtype.kind in "iu":
        assert np.all((found >= 0) & (found <= 9))


@given(st.lists(st.integers(0, 10**6), max_size=4).map(tuple))
def test_shapes_read_back(shape: tuple[int, ...]) -> None:
    assert parse_shape(",".join(map(str, shape))) == shape


@pytest.mark.parametrize(("text", "shape"), [("", ()), ("5,", (5,)), (" 5 , 4 ", (5, 4))])
def test_shapes_as_people_write_them(text: str, shape: tuple[int, ...]) -> None:
    assert parse_shape(text) == shape


@pytest.mark.parametrize("text", [",", "5,,4", "x", "-1", "1.5", "5 4"])
def test_no_shapes(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a shape|cannot be negative"):
        parse_shape(text)


def test_names_may_have_their_sign() -> None:
    assert split_option("%x=1=2", "NAME=VALUE") == ("x", "1=2")
