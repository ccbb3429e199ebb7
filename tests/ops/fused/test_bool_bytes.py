"""Every byte of a bool other than 0 is true: numpy's ``view``, C and masks of other libraries have others than 1.

Every operator that takes a bool, on every device: with bytes 2 and 255 the results are those of True.
"""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.op import Op
from relayvm.ops.core.tensor_types import TupleType
from relayvm.vm.api.executable import from_bytes
from relayvm.vm.bytecode.executable_file import to_bytes

from ...devices import DEVICES
from ...programs import HEADER
from ..every_op import all_recipes  # noqa: F401
from ..every_op.drawing import Draw
from ..every_op.program import Mode, dims_of, same
from ..every_op.recipe import Call, attrs_of, dtypes_of, operators, recipe_of, regroup


def calls_of(op: Op) -> list[Call]:
    """Calls with a bool among the inputs: of the operator's first dtype, and of bools."""
    found = []
    for dtype in dict.fromkeys((dtypes_of(op.name)[0], *(d for d in dtypes_of(op.name) if d == "bool"))):
        made = recipe_of(op.name).make(Draw(dtype, "odd"), op.name)
        if any(x.dtype == np.bool_ and x.size for x in made.flat) and not isinstance(made.wanted, str):
            found.append(made)
    return found


def with_bytes(x: np.ndarray) -> np.ndarray:
    """The same truth values in other bytes."""
    if x.dtype != np.bool_:
        return x
    bytes_ = np.resize(np.array([2, 255, 1, 128, 254], np.uint8), x.size).reshape(x.shape)
    return np.where(x, bytes_, 0).astype(np.uint8).view(np.bool_)


def run(op: Op, made: Call, device: str) -> list[np.ndarray]:
    """The results of a program of this call alone."""
    params = [
        relay.var(f"x{k}", row, x.dtype.name)
        for k, (x, row) in enumerate(zip(made.flat, dims_of(op, [made], Mode("any")), strict=True))
    ]
    given = [relay.Tuple(list(a)) if isinstance(a, tuple) else a for a in regroup(made, params)]
    module = relay.IRModule({"main": relay.Function(params, relay.Call(op, given, attrs_of(op, made)))})
    exe = relay.compile(module, target=device)
    (main,) = (f for f in exe.functions if f.name == "main")
    found = relay.VirtualMachine(exe).run(*map(with_bytes, made.flat))
    return [np.array(r.numpy()) for r in found] if isinstance(main.result, TupleType) else [np.array(found.numpy())]


OPERATORS = [op for op in operators() if calls_of(op)]


HOSTS = tuple(d for d in DEVICES if d != "cuda") or DEVICES
GPUS = tuple(d for d in DEVICES if d not in HOSTS)
#: Operators whose texts for GPUs read bools in different ways: by element, in packs, in tiles, in rows; kernels of their own.
REPRESENTATIVE = (
    "cast",
    "where",
    "logical_not",
    "any",
    "transpose",
    "concatenate",
    "argwhere",
    "sort",
    "scatter_elements",
    "searchsorted",
)


def test_many_operators_take_bools() -> None:
    some = {"where", "cast", "all", "any", "argwhere", "logical_not", "sort", "take", "scatter_nd", "searchsorted", "nn.pad"}
    assert some <= {op.name for op in OPERATORS}


@pytest.mark.thinned(3)
@pytest.mark.split(4)
@pytest.mark.spread("device")
@pytest.mark.parametrize("device", HOSTS)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_every_byte_but_0_is_true(op: Op, device: str) -> None:
    check(op, device)


@pytest.mark.thinned(3)
@pytest.mark.extensive(op=REPRESENTATIVE)
@pytest.mark.parametrize("device", GPUS)
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_every_byte_but_0_is_true_on_gpus(op: Op, device: str) -> None:
    check(op, device)


def check(op: Op, device: str) -> None:
    """Compare the results of bools in other bytes with those of True."""
    for made in calls_of(op):
        for result, wanted in zip(run(op, made, device), made.wanted, strict=True):
            assert result.shape == wanted.shape
            same(result, wanted, made.tolerance)


TEXTS = {
    "if (%c) { %x } else { negative(%x) }": "the condition of a branch",
    "if (logical_not(%c)) { negative(%x) } else { %x }": "a condition that is computed",
    "where(%c, %x, negative(%x))": "an operand that is broadcast",
    "where(equal(%c, %d), %x, negative(%x))": "equality of two true values",
    'multiply(%x, cast(max(stack((%c, %d), axis=0)), dtype="float32"))': "a maximum",
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("body", TEXTS, ids=TEXTS.get)
def test_scalars(body: str, device: str) -> None:
    text = f"{HEADER}def @main(%x: Tensor[(?n), float32], %c: bool, %d: bool) {{ {body} }}"
    vm = relay.VirtualMachine(relay.compile(text, target=device))
    c, d = (np.array(byte, np.uint8).view(np.bool_) for byte in (2, 129))
    assert vm.run(np.ones(3, np.float32), c, d).numpy().tolist() == [1, 1, 1]


def test_a_constant_becomes_0_or_1() -> None:
    bytes_ = np.array([0, 2, 255], np.uint8).view(np.bool_)
    for made in (relay.const(bytes_), relay.Constant(bytes_)):
        assert made.data.view(np.uint8).tolist() == [0, 1, 1]
    x = relay.var("x", (3,), "bool")
    module = relay.IRModule({"main": relay.Function([x], relay.logical_xor(x, relay.const(bytes_)))})
    exe = from_bytes(to_bytes(relay.compile(module)))
    assert relay.VirtualMachine(exe).run(np.array([False, True, False])).numpy().tolist() == [False, False, True]


def test_the_bits_of_true_are_those_of_1() -> None:
    text = HEADER + 'def @main(%x: Tensor[(?n), bool]) { reinterpret(%x, dtype="uint8") }'
    found = relay.VirtualMachine(relay.compile(text)).run(np.array([0, 2, 1], np.uint8).view(np.bool_))
    assert found.numpy().tolist() == [0, 1, 1]
