"""Errors of type relations."""

from __future__ import annotations

from typing import Any

import pytest

from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.ops.core.type_relation import relate

#: The end of the message about an index that is no integer.
INTEGER = "supported: int8, int16, int32, int64, uint8, uint16, uint32, uint64"


def refused(name: str, types: list[Any], attrs: Any) -> str:
    """The message of the error for inputs of these shapes and dtypes; a tuple input is a list."""

    def ty(t: Any) -> Any:
        return tuple(map(ty, t)) if isinstance(t, list) else TensorType.of(*t)

    with pytest.raises(TypeRelError) as error:
        relate(get(name), [ty(t) for t in types], attrs)
    return error.value.message
