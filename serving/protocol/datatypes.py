"""The protocol's names of dtypes, and the field of gRPC's typed contents for each."""

from __future__ import annotations

import sys

import numpy as np

from ...ops.core.tensor_types import DTYPES, ITEMSIZE, numpy_dtype

#: The protocol's beginnings of names.
_PREFIX = {"float": "FP", "bfloat": "BF", "int": "INT", "uint": "UINT"}


def _datatype(dtype: str) -> str:
    letters = dtype.rstrip("0123456789")
    return _PREFIX[letters] + dtype.removeprefix(letters) if letters in _PREFIX else dtype.upper()


#: The protocol's name of each dtype.
DATATYPE = {dtype: _datatype(dtype) for dtype in DTYPES}


def _contents(dtype: str) -> str | None:
    kind, bits = np.dtype(dtype).kind if dtype != "bfloat16" else "h", 8 * ITEMSIZE[dtype]
    if kind == "f":
        return f"fp{bits}_contents" if bits >= 32 else None
    names = {"b": "bool", "i": "int64" if bits == 64 else "int", "u": "uint64" if bits == 64 else "uint"}
    return f"{names[kind]}_contents" if kind in names else None


#: The field of ``InferTensorContents`` of each dtype; None: raw contents only.
CONTENTS = {dtype: _contents(dtype) for dtype in DTYPES}


def little_endian(dtype: str) -> np.dtype:
    """The dtype of binary tensors: the protocol's are little-endian.

    On such a computer it is numpy's own object: a machine's short way in takes arrays of no other object.
    """
    native = numpy_dtype(dtype)
    return native if sys.byteorder == "little" else native.newbyteorder("<")
