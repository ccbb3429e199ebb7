"""Every value of every attribute that has a fixed set of them, as its class declares it, compiled and run.

Values that a recipe makes are held against its oracle.  Others are put in the place of the recipe's: there the compiled program
is held against the operator's kernel alone, which the tests of the operator's family hold against their own reference.
"""

from __future__ import annotations

import dataclasses
import itertools
import typing
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.attrs import _hints
from relayvm.ops.core.op import Op, TypeRelError
from relayvm.vm.runtime.evaluate import evaluate

from .every_op.program import Compiled, Mode
from .every_op.recipe import Call, attrs_of, dtypes_of, operators
from .test_every_op import FULL, VARIANTS, _ids, calls_of, check_calls

#: So many rows of choices are tried for the values that a recipe makes.
TRIED = 64
MODE = Mode("any")


def values_of(declared: Any) -> tuple[Any, ...]:
    """The values of a declared type that lists them."""
    if declared is bool:
        return (False, True)
    args = typing.get_args(declared)
    return args if typing.get_origin(declared) is typing.Literal else tuple(v for a in args for v in values_of(a))


def enumerated(op: Op) -> set[tuple[str, Any]]:
    """Each attribute that has a fixed set of values, with each of them."""
    return {(name, value) for name, declared in _hints(op.attrs).items() for value in values_of(declared)}


def has(op: Op, made: Call, name: str, value: Any) -> bool:
    found = getattr(attrs_of(op, made), name)
    return found == value and type(found) is type(value)


def drawn(op: Op) -> tuple[list[int], list[tuple[str, Any]]]:
    """The rows of choices that give all values that the recipe makes, and the values that it does not make."""
    left, variants = enumerated(op), list[int]()
    for variant in range(TRIED):
        if not left:
            break
        made = calls_of(op, dtypes_of(op.name)[0], variant)["odd"]
        new = {(name, value) for name, value in left if has(op, made, name, value)}
        if new:
            left -= new
            variants.append(variant)
    return variants, sorted(left, key=repr)


def together(values: list[tuple[str, Any]]) -> Iterator[dict[str, Any]]:
    """Values of different attributes at once, so that there are fewer calls."""
    by_name = {name: [v for _, v in pairs] for name, pairs in itertools.groupby(values, key=lambda pair: pair[0])}
    for row in itertools.zip_longest(*by_name.values()):
        yield {name: value for name, value in zip(by_name, row, strict=True) if value is not None}


@pytest.mark.parametrize("op", [op for op in operators() if enumerated(op)], ids=_ids)
@pytest.mark.extensive
def test_every_value(op: Op) -> None:
    dtype = dtypes_of(op.name)[0]
    variants, others = drawn(op)
    for variant in variants:
        if variant > VARIANTS:  # those before are run elsewhere
            check_calls(op, {"odd": calls_of(op, dtype, variant)["odd"]}, MODE)
    plain = calls_of(op, dtype)["odd"]
    for changed in together(others):
        if changed.get("coordinate_transformation_mode") == "tf_crop_and_resize" and "roi" in _hints(op.attrs):
            rank = plain.flat[0].ndim - 2
            changed["roi"] = (0.1,) * rank + (0.8,) * rank
        check_against_kernel(op, dataclasses.replace(plain, attrs=plain.attrs | changed))


def check_against_kernel(op: Op, made: Call) -> None:
    try:
        wanted = evaluate(op, list(made.inputs), attrs_of(op, made))
    except (relay.TypeCheckError, TypeRelError):
        wanted = None
    for device in FULL:
        if wanted is None:
            # sizes that do not fit are found when they are known: at the latest in the run
            with pytest.raises((relay.TypeCheckError, relay.VMError)):
                Compiled(op, [made], MODE, device).run(made)
            continue
        found = Compiled(op, [made], MODE, device).run(made)
        expected = list(wanted) if isinstance(wanted, tuple) else [wanted]
        for result, alone in zip(found, expected, strict=True):
            np.testing.assert_array_equal(result, alone, err_msg=f"{op.name} {made.attrs}")
