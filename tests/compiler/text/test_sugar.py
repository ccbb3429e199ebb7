"""Tensor literals and slices: the plain Relay they become, and their values."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.expr import Constant
from relayvm.compiler.ir.structural_equal import structural_equal
from relayvm.compiler.text.parser import parse_expr

from ...programs import HEADER

LAST = 2**63 - 1


@pytest.mark.parametrize(
    ("text", "dtype", "value"),
    [
        ("[0, 1]", "int32", [0, 1]),
        ("[7]", "int32", [7]),
        ("[[1f, 2f], [3f, -4f]]", "float32", [[1, 2], [3, -4]]),
        ("[[[1u8]], [[2u8]],]", "uint8", [[[1]], [[2]]]),
        ("[True, False]", "bool", [True, False]),
        ("[1, 3000000000]", "int64", [1, 3000000000]),
        ("[--1, - 2]", "int32", [1, -2]),
    ],
)
def test_tensor_literals(text: str, dtype: str, value: object) -> None:
    constant = parse_expr(text)
    assert isinstance(constant, Constant) and constant.data.dtype.name == dtype and constant.data.tolist() == value
    assert structural_equal(parse_expr(relay.astext(constant)), constant)


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("%x[0:2]", "strided_slice(%x, begin=[0], end=[2], axes=[0])"),
        ("%x[:, 1:3]", f"strided_slice(%x, begin=[0, 1], end=[{LAST}, 3], axes=[0, 1])"),
        ("%x[-2:]", f"strided_slice(%x, begin=[-2], end=[{LAST}], axes=[0])"),
        ("%x[:-1]", "strided_slice(%x, begin=[0], end=[-1], axes=[0])"),
        ("%x[1::2]", f"strided_slice(%x, begin=[1], end=[{LAST}], strides=[2], axes=[0])"),
        ("%x[::-1]", f"strided_slice(%x, begin=[-1], end=[-{LAST}], strides=[-1], axes=[0])"),
        ("%x[0]", "squeeze(strided_slice(%x, begin=[0], end=[1], axes=[0]), axis=[0])"),
        ("%x[-1]", f"squeeze(strided_slice(%x, begin=[-1], end=[{LAST}], axes=[0]), axis=[0])"),
        ("%x[..., 2]", "squeeze(strided_slice(%x, begin=[2], end=[3], axes=[-1]), axis=[-1])"),
        ("%x[1, ..., 2]", "squeeze(strided_slice(%x, begin=[1, 2], end=[2, 3], axes=[0, -1]), axis=[0, -1])"),
        ("%x[...]", "%x"),
        ("%x[0][1]", "(%x[0])[1]"),
        ("exp(%x)[0:1] + %x", "add(exp(%x)[0:1], %x)"),
    ],
)
def test_slices(text: str, plain: str) -> None:
    free = "free_var %x; "
    expr = parse_expr(free + text)
    assert structural_equal(expr, parse_expr(free + plain), map_free_vars=True)
    assert structural_equal(expr, parse_expr(relay.astext(expr)), map_free_vars=True)


def test_types_of_slices() -> None:
    text = f"{HEADER}def @main(%x: Tensor[(?n, 4), float32]) {{ (%x[0:2], %x[:, 1:3], %x[..., 0], %x[1:], [1, 2][0]) }}"
    body = relay.transform.InferType()(relay.parse(text))["main"].body
    assert str(body.checked_type) == (
        "(Tensor[(?, 4), float32], Tensor[(?n, 2), float32], Tensor[(?n), float32], Tensor[(?, 4), float32], int32)"
    )


@pytest.mark.extensive
def test_values_of_slices() -> None:
    """The slices are numpy's."""
    indices = ["0:2", ":, 1:3", "-1", "..., 0", "::-1", "1::2, -2:", "2, 1:-1", ":, ::-2", "-3:-1, 3"]
    text = f"{HEADER}def @main(%x: Tensor[(?n, 4), float32]) {{ ({', '.join(f'%x[{i}]' for i in indices)}) }}"
    x = np.arange(20, dtype="float32").reshape(5, 4)
    for index, found in zip(indices, relay.VirtualMachine(relay.compile(text)).run(x), strict=True):
        assert np.array_equal(found.numpy(), eval(f"x[{index}]")), index


def test_remainder_in_python() -> None:
    """Python's ``%`` and ``//`` build the calls of the text's ``%`` and of ``floor_divide``."""
    x = relay.var("x", (3,), "int32")
    assert structural_equal(x % 2, parse_expr("free_var %x: Tensor[(3), int32]; %x % 2"), map_free_vars=True)
    plain = parse_expr("free_var %x: Tensor[(3), int32]; floor_divide(7, %x)")
    assert structural_equal(7 // x, plain, map_free_vars=True)
