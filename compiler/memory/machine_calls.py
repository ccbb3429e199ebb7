"""Calls of the machine's operators that passes insert: storage, constants, vectors of sizes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ops.core.tensor_types import TensorType
from ...ops.defs.machine import machine_ops
from ...vm.diagnostics.source import Span
from ..ir.expr import Call, Constant


def vector_type(rank: int) -> TensorType:
    """The type of a shape."""
    return TensorType.of((rank,), "int64")


def vector_constant(sizes: Sequence[int]) -> Constant:
    """Known sizes as an int64 vector."""
    data = np.array(sizes, np.int64)
    data.setflags(write=False)
    return Constant(data, ty=vector_type(len(sizes)))


def storage_call(nbytes: int, device: str, span: Span | None) -> Call:
    """The call that allocates a storage of ``nbytes`` bytes."""
    attrs = machine_ops.AllocStorageAttrs(nbytes, device)
    return Call(machine_ops.ALLOC_STORAGE, (), attrs, ty=TensorType.of((nbytes,), "uint8"), span=span)


def load_call(constant: Constant, device: str, span: Span | None = None) -> Call:
    """The call that loads a constant on ``device``."""
    return Call(machine_ops.LOAD_CONST, (constant,), machine_ops.LoadConstAttrs(device), ty=constant.ty, span=span)
