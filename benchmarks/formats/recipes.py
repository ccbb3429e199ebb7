"""Calls of operators by the recipes of the tests, of tensors of usual sizes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.ops.core.op import Op

from .case import HALVES

sys.path.append(str(Path(__file__).resolve().parents[2]))

from tests.ops.every_op import all_recipes as all_recipes  # declares the recipes
from tests.ops.every_op.drawing import Draw
from tests.ops.every_op.recipe import Call, attrs_of, dtypes_of, flags_of, operators, recipe_of, regroup

#: Sizes by rank: a long row, rows of a text, a batch of matrices, an image's channels, some images of a film.
USUAL = {0: (), 1: (51200,), 2: (800, 256), 3: (8, 160, 64), 4: (1, 64, 56, 56), 5: (1, 16, 8, 28, 28)}
REAL = "float32"


class Usual(Draw):
    """A drawing of arguments of usual sizes, where a recipe does not choose the sizes itself."""

    def __init__(self, dtype: str) -> None:
        super().__init__(dtype, "large")

    def dims(self, rank: int, least: int = 0) -> tuple[int, ...]:
        """Sizes of ``rank`` axes."""
        return USUAL[rank]


def of_floats() -> list[Op]:
    """The operators of the registry that take float32 and both formats of halves."""
    return [op for op in operators() if {REAL, *HALVES} <= {*dtypes_of(op.name)}]


def drawn(op: Op, dtype: str) -> Call:
    """A call with halves."""
    return recipe_of(op.name).make(Usual(dtype), op.name)


def program(op: Op, made: Call, arrays: Sequence[np.ndarray]) -> tuple[relay.IRModule, dict[str, np.ndarray]]:
    """The program of a call with these arrays, and the arguments of the program: values that decide sizes are constants."""
    args: list[Any] = []
    inputs: dict[str, np.ndarray] = {}
    params = []
    for number, (x, is_constant) in enumerate(zip(arrays, flags_of(op, made), strict=True)):
        if is_constant:
            args.append(relay.const(x))
            continue
        params.append(relay.var(f"x{number}", x.shape, x.dtype.name))
        args.append(params[-1])
        inputs[f"x{number}"] = x
    structured = [relay.Tuple(list(a)) if isinstance(a, tuple) else a for a in regroup(made, args)]
    return relay.IRModule({"main": relay.Function(params, relay.Call(op, structured, attrs_of(op, made)))}), inputs
