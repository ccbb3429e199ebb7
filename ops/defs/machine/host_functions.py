"""Calls of functions in Python from a program."""

from __future__ import annotations

from typing import Any

from ...core.dtype_rules import require
from ...core.implementation import Kernel
from ...core.op import Op, OpPattern
from ...kernels.host_functions import host_function


def _answer(dtypes: tuple[Any, ...], attrs: Any) -> str:
    require("host_function", dtypes[0], ("int64",), 0, "function")
    return "bool"


Op(
    name="host_function",
    doc="Whether a function in Python, by its number in this process, answers True for the data: "
    "`host_function(0, [1, 2]) = False`. No function has the number 0.",
    inputs=("function", "data"),
    pattern=OpPattern.OPAQUE,
    dtype=_answer,
    kernels=(Kernel("python", host_function, attrs=lambda attrs: {}, in_python=True),),
    stateful=True,
)
