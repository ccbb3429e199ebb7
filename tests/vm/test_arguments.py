"""Python's own numbers and lists as arguments: they take the parameter's dtype where that keeps their value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay


def machine(ty: str) -> relay.VirtualMachine:
    return relay.VirtualMachine(relay.compile(f'#[version = "0.0.5"]\ndef @main(%x: {ty}) {{ copy(%x) }}'))


@pytest.mark.parametrize(
    ("ty", "value"),
    [
        ("int32", 2), ("int64", -5), ("uint8", 255), ("float32", 2), ("float32", 0.1), ("float64", 0.1), ("bool", True),
        ("Tensor[(?), int32]", [1, 2, 3]), ("Tensor[(?, 2), float32]", [[1, 2.5]]), ("Tensor[(2), int8]", (1, -1)),
    ],
)  # fmt: skip
def test_taken(ty: str, value: Any) -> None:
    result = machine(ty).run(value).numpy()
    np.testing.assert_array_equal(result, np.asarray(value, result.dtype))


@pytest.mark.parametrize(
    ("ty", "value"), [("uint8", 256), ("uint8", -1), ("int32", 0.5), ("int32", 2**40), ("bool", 1), ("float32", 2**60 + 1)]
)
def test_refused_where_the_value_would_change(ty: str, value: Any) -> None:
    with pytest.raises(relay.InputError, match="has dtype"):
        machine(ty).run(value)
