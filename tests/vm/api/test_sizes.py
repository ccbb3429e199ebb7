"""Portable sizes: round trips through files, ``?`` for names that are internal to the compiler, texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import relayvm as relay
from relayvm.ops.core.tensor_types import MAX_RANK, TensorType, TupleType
from relayvm.shape_funcs.symbolic.dim import ANY, Dim, dim, fresh, result_size, sym
from relayvm.shape_funcs.symbolic.dim_operations import evaluate, max_, min_, where
from relayvm.vm.api.executable import from_bytes
from relayvm.vm.bytecode.executable_file import to_bytes
from relayvm.vm.bytecode.size_expressions import (
    known_value,
    nbytes,
    parameter_sizes,
    portable,
    shape_text,
    size_text,
    tensor_from_json,
    tensor_to_json,
)

N, M, X = sym("n"), sym("m"), sym("x.shape[0]")
leaves = st.one_of(st.integers(-3, 3).map(dim), st.sampled_from([N, M, X]))
dims = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda p: p[0] + p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] * p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] // p[1]),
        st.tuples(inner, inner).map(lambda p: p[0] % p[1]),
        st.tuples(inner, inner).map(lambda p: min_(*p)),
        st.tuples(inner, inner).map(lambda p: max_(*p)),
    ),
    max_leaves=12,
)


@given(st.lists(st.one_of(dims, st.just(ANY), st.just(fresh()), st.just(where(N, M, X))), max_size=MAX_RANK))
def test_what_goes_through_a_file_comes_back(shape: list[Dim]) -> None:
    ty = portable(TensorType(tuple(shape), "int8"), {})
    dtype, data = json.loads(json.dumps(tensor_to_json(ty)))
    assert tensor_from_json(dtype, data) == ty


@given(dims, st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_the_text_has_the_value(d: Dim, n: int, m: int, x: int) -> None:
    values = {"n": n, "m": m, "x.shape[0]": x}
    assert known_value(d, values) == evaluate(d, values)
    readable = size_text(d).replace("·", "*").replace("?", "").replace("x.shape[0]", "x")
    try:
        read = eval(readable, {"min": min, "max": max}, {"n": n, "m": m, "x": x})
    except ZeroDivisionError:
        return  # a division by zero is 0 for a dim
    assert read == evaluate(d, values)


@pytest.mark.parametrize(
    ("d", "text"),
    [
        (N * 2 + 1, "2·?n + 1"),
        (N - 1, "?n - 1"),
        (-1 * N, "-?n"),
        (X * N, "?n·x.shape[0]"),
        ((N + 1) // 2, "(?n + 1) // 2"),
        (min_(N, 8), "min(8, ?n)"),
        (dim(0), "0"),
        (ANY, "?"),
    ],
)
def test_texts(d: Dim, text: str) -> None:
    assert size_text(d) == text


def test_names_of_the_compiler_do_not_leave_it() -> None:
    hidden, named = fresh(), fresh()
    names = parameter_sizes([("p", TupleType((TensorType((N, named)), TensorType.of((2,)))))])
    ty = portable(TensorType((N, named * 2, hidden, result_size(N)), "float32"), names)
    assert shape_text(ty) == "float32[?n, 2·p.0.shape[1], ?, ?]"
    assert nbytes(ty) is ANY and known_value(nbytes(ty), {"n": 1}) is None
    assert shape_text(TensorType((), "bool")) == "bool"


def test_a_size_of_very_many_parts_is_not_known() -> None:
    big = dim(1)
    for i in range(30):
        big = big * (sym(f"a{i}") + 1) if i < 3 else max_(big, sym(f"a{i}"))
    assert portable(TensorType((big,)), {}).shape == (ANY,)


@pytest.mark.parametrize(
    ("dtype", "data"),
    [
        ("float31", []),
        ("int8", [True]),
        ("int8", [1.5]),
        ("int8", [2**63]),
        ("int8", [".hidden"]),
        ("int8", ["a b"]),
        ("int8", [["poly", [1, "n"]]]),  # not the normal form: that is "n"
        ("int8", [["poly", 3]]),
        ("int8", [["mod", "n"]]),
        ("int8", [["where", "n", "m", 1]]),
        ("int8", [["mod", "n", None]]),
        ("int8", [["max", "n", ["max", "n", "m"]] * 40]),
        ("int8", [{}]),
    ],
)
def test_other_data_is_refused(dtype: str, data: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"is no size|unknown dtype"):
        tensor_from_json(dtype, data)


def test_numbers_beyond_64_bits_are_not_written() -> None:
    text = f"""#[version = "0.0.5"]
def @main(%x: Tensor[(?k), float32]) {{ repeat(%x, repeats={2**63 - 1}) }}
"""
    for target in ("cpu", "sim"):
        exe = relay.compile(text, target=target)
        assert to_bytes(from_bytes(to_bytes(exe))) == to_bytes(exe)


def test_a_dim_that_is_written_is_read() -> None:
    """A subexpression that occurs twice is one part in memory and two in a file: strided convolutions nest such sizes."""
    d, written = sym("n"), list[bool]()
    for _ in range(8):
        half = (d + 1) // 2
        d = half * half + d
        kept = portable(TensorType((d,)), {})
        assert kept.shape[0] in (d, ANY) and tensor_from_json(*tensor_to_json(kept)) == kept
        written.append(kept.shape[0] is not ANY)
    assert written[0] and not written[-1], "small sizes are kept, large ones are ?"
