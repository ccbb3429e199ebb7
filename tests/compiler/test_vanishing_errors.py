"""The rule of docs/language.md on the errors of a run: errors that may vanish when a program is optimised, and the others."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.implementation import Kernel
from relayvm.ops.core.op import REGISTRY, NoAttrs, Op, OpPattern
from relayvm.ops.native import status
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS
from relayvm.vm.diagnostics import codes

from ..programs import HEADER

LEVELS, DEVICES = (0, 1, 2, 3), ("cpu", "sim")
_F, _I = "Tensor[(?n), float32]", "Tensor[(?n), int32]"
_VECTOR, _ZEROS, _NONE = np.arange(4, dtype="f"), np.zeros(4, "i4"), np.zeros((3, 0), "f")


@dataclass(frozen=True)
class Failure:
    """An expression over parameters that fails with a status for some arguments, and computes a vector for others."""

    status: int
    params: str
    value: str
    bad: tuple[Any, ...]
    good: tuple[Any, ...]
    definitions: str = ""


_AT = f"%x: {_F}, %i: Tensor[(?k), int32]"
_TWO = f"%a: {_I}, %b: {_I}"
FAILURES = {
    "gather": Failure(
        status.INDEX_OUT_OF_RANGE, _AT, "gather(%x, %i, axis=0)", (_VECTOR, np.array([9], "i4")), (_VECTOR, np.array([1], "i4"))
    ),
    "take": Failure(
        status.INDEX_OUT_OF_RANGE,
        _AT,
        'take(%x, %i, axis=0, mode="fast")',
        (_VECTOR, np.array([9], "i4")),
        (_VECTOR, np.array([1], "i4")),
    ),
    "scatter_elements": Failure(
        status.INDEX_OUT_OF_RANGE,
        _AT,
        'scatter_elements(%x, %i, cast(%i, dtype="float32"), axis=0)',
        (_VECTOR, np.array([9], "i4")),
        (_VECTOR, np.array([1], "i4")),
    ),
    "floor_divide": Failure(status.DIVISION_BY_ZERO, _TWO, "floor_divide(%a, %b)", (_ZEROS + 1, _ZEROS), (_ZEROS, _ZEROS + 1)),
    "argwhere": Failure(
        status.DIVISION_BY_ZERO,
        _TWO,
        "squeeze(argwhere(floor_divide(%a, %b)), axis=[1])",
        (_ZEROS + 1, _ZEROS),
        (_ZEROS + 1, _ZEROS + 1),
    ),
    "max": Failure(
        status.EMPTY_REDUCTION, "%x: Tensor[(?n, ?m), float32]", "max(%x, axis=[1])", (_NONE,), (np.ones((3, 2), "f"),)
    ),
    "argmin": Failure(
        status.EMPTY_REDUCTION, "%x: Tensor[(?n, ?m), float32]", "argmin(%x, axis=[1])", (_NONE,), (np.ones((3, 2), "f"),)
    ),
    "strided_set": Failure(
        status.BAD_VALUE,
        f"%x: {_F}, %s: Tensor[(1), int64]",
        "strided_set(%x, %x, [0i64], [1i64], %s)",
        (np.ones(1, "f"), np.array([0])),
        (np.ones(1, "f"), np.array([1])),
    ),
    "a kernel in Python": Failure(status.HOST_KERNEL, f"%x: {_F}", "tests.refuses(%x)", (_VECTOR,), (_VECTOR + 1,)),
    "add": Failure(
        status.SHAPE_CHECK, f"%x: {_F}, %y: Tensor[(?m), float32]", "%x + %y", (_VECTOR, _VECTOR[:3]), (_VECTOR, _VECTOR)
    ),
    "reshape": Failure(
        status.SHAPE_CHECK, f"%x: {_F}", "reshape(reshape(%x, newshape=[-1, 3]), newshape=[-1])", (_VECTOR,), (_VECTOR[:3],)
    ),
    "annotation": Failure(
        status.SHAPE_CHECK,
        f"%x: {_F}, %y: Tensor[(?m), float32]",
        "{ let %same: Tensor[(?m), float32] = %x; %same }",
        (_VECTOR, _VECTOR[:3]),
        (_VECTOR, _VECTOR),
    ),
    "dyn.full": Failure(
        status.SHAPE_CHECK,
        "%x: float32, %s: Tensor[(1), int64]",
        'dyn.full(%x, %s, dtype="float32")',
        (np.float32(1), np.array([-3])),
        (np.float32(1), np.array([3])),
    ),
    "dyn.tile": Failure(
        status.SIZE_OVERFLOW,
        f"%x: {_F}, %s: Tensor[(1), int64]",
        "dyn.tile(%x, %s)",
        (_VECTOR, np.array([2**62])),
        (_VECTOR, np.array([2])),
    ),
    "match": Failure(
        status.NO_MATCH,
        f"%x: {_F}, %b: bool",
        "match? (if (%b) { Full(%x) } else { Bare }) { Full(%y) => { %y } }",
        (_VECTOR, np.array(False)),
        (_VECTOR, np.array(True)),
        f"type Case {{ Full({_F.replace('?n', '?')}), Bare }}\n",
    ),
}

#: Programs over a value: the value is the result, nothing needs it, its sizes are needed, no element of it is.
USED, DEAD, SIZES, NO_ELEMENT = "used", "dead", "sizes", "no element"
CONSUMERS = {
    USED: "let %v = {}; %v",
    DEAD: "let %v = {}; 7f",
    SIZES: "let %v = {}; shape_of(%v)",
    NO_ELEMENT: "let %v = {}; strided_slice(%v, begin=[0], end=[0], strides=[1])",
}
NOT_TAKEN = "let %no = %flag; if (%no) {{ {} }} else {{ {} }}"


@pytest.fixture(scope="module", autouse=True)
def refuses() -> Iterator[None]:
    """A kernel in Python that refuses a vector that begins with 0."""

    def kernel(x: np.ndarray, out: np.ndarray) -> None:
        if x.size and x[0] == 0:
            raise ValueError("it begins with 0")
        out[...] = x

    name = "tests.refuses"
    relay.register_shape_func(name, [False], lambda inputs, attrs: inputs[0].shape)
    kernels = (Kernel("python", kernel, attrs=lambda attrs: {}, in_python=True),)
    Op(
        name=name,
        doc="x.",
        inputs=("x",),
        pattern=OpPattern.OPAQUE,
        dtype=lambda dtypes, attrs: dtypes[0],
        attrs=NoAttrs,
        kernels=kernels,
    )
    yield
    del REGISTRY[name], SHAPE_FUNCS[name]


def program(failure: Failure, body: str) -> str:
    return f"{HEADER}{failure.definitions}def @main({failure.params}) {{ {body} }}"


def raised(failure: Failure, consumer: str, level: int, device: str) -> str | None:
    """The code of the error for the bad arguments, if there is any; the good ones have none."""
    text = program(failure, CONSUMERS[consumer].format(failure.value))
    vm = relay.VirtualMachine(relay.compile(text, target=device, opt_level=level))
    vm.run(*failure.good).numpy()
    try:
        vm.run(*failure.bad).numpy()
    except relay.VMError as error:
        return error.code
    return None


def check_rule(name: str, consumer: str, level: int, device: str) -> None:
    failure = FAILURES[name]
    found, own = raised(failure, consumer, level, device), str(codes.of_status(failure.status))
    may_vanish = consumer == DEAD or (consumer != USED and failure.status in status.OF_ELEMENTS)
    first = 1 if consumer == DEAD else 2
    assert found == own or (found is None and may_vanish and level >= first), (found, own)


@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("name", FAILURES)
def test_errors_that_vanish_and_errors_that_do_not(name: str, consumer: str) -> None:
    for level in (0, 2):
        check_rule(name, consumer, level, "cpu")


@pytest.mark.extensive
@pytest.mark.parametrize("consumer", CONSUMERS)
@pytest.mark.parametrize("name", FAILURES)
def test_every_level_and_device_keeps_the_rule(name: str, consumer: str) -> None:
    for level, device in itertools.product(LEVELS, DEVICES):
        check_rule(name, consumer, level, device)


def test_the_rule_speaks_of_every_status() -> None:
    kinds = (status.OF_ELEMENTS, status.OF_SIZES, status.OF_CONTROL, status.OF_THE_MACHINE)
    assert sorted(itertools.chain(*kinds)) == sorted(set(status.STATUS) - {status.OK})
    assert {f.status for f in FAILURES.values()} == set(status.STATUS) - {status.OK} - status.OF_THE_MACHINE


@pytest.mark.parametrize("name", ["gather", "floor_divide", "max", "add", "dyn.tile"])
def test_the_branch_that_is_not_taken_fails_at_no_level(name: str) -> None:
    failure = FAILURES[name]
    text = program(failure, NOT_TAKEN.format(f'sum(cast({failure.value}, dtype="float32"))', "7f")).replace(
        "@main(", "@main(%flag: bool, "
    )
    for level in LEVELS:
        vm = relay.VirtualMachine(relay.compile(text, opt_level=level))
        assert vm.run(np.array(False), *failure.bad).numpy() == 7


ENTRY: dict[str, tuple[Callable[[], tuple[Any, ...]], str]] = {
    "dtype": (lambda: (_VECTOR, _ZEROS), "input/type"),
    "rank": (lambda: (_VECTOR, _NONE), "input/type"),
    "size": (lambda: (_VECTOR, _VECTOR[:3]), "input/sizes"),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("level", LEVELS)
def test_arguments_are_compared_with_parameters_that_nothing_uses(level: int, device: str) -> None:
    text = HEADER + f"def @main(%x: {_F}, %unused: {_F}) {{ %x }}"
    vm = relay.VirtualMachine(relay.compile(text, target=device, opt_level=level))
    for arguments, code in ENTRY.values():
        with pytest.raises(relay.InputError) as error:
            vm.run(*arguments())
        assert error.value.code == code
