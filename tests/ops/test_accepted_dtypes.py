"""The dtypes of indices, sizes and fill values that Relay accepts, beyond those of the kernels: each against numpy.

Programs are not fused: one kernel per operator, and one ``cast`` per dtype, serve all tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.dtype_rules import FLOATS, INDICES, INTEGERS
from relayvm.ops.core.group import Node
from relayvm.ops.core.op import TypeRelError, get
from relayvm.ops.core.tensor_types import DTYPES, Tensor, numpy_dtype
from relayvm.ops.core.type_relation import build_group
from relayvm.shape_funcs.symbolic.dim import dim

DATA = np.arange(12, dtype=np.float32).reshape(3, 4)
IMAGE = DATA.reshape(1, 1, 3, 4)


class Case:
    """A call of an operator: the inputs at ``varied`` have the dtype of the test; ``wanted`` is the result."""

    def __init__(self, name: str, inputs: list[Any], varied: tuple[int, ...], wanted: Any, **attrs: Any) -> None:
        self.name, self.inputs, self.varied, self.wanted, self.attrs = name, inputs, varied, wanted, attrs

    def arrays(self, dtype: str) -> list[Any]:
        def made(position: int, value: Any) -> Any:
            if isinstance(value, tuple):
                return (value[0], *(np.array(v, numpy_dtype(dtype)) for v in value[1:]))
            return np.array(value, numpy_dtype(dtype)) if position in self.varied else np.asarray(value)

        return [made(k, v) for k, v in enumerate(self.inputs)]


def run(name: str, arrays: list[Any], attrs: dict[str, Any], constant: tuple[int, ...] = (), opt_level: int = 0) -> np.ndarray:
    """The first result; the inputs at ``constant`` are constants of the program."""
    params: list[Any] = []
    given: list[Any] = []

    def atom(array: np.ndarray, is_constant: bool) -> Any:
        if is_constant:
            return relay.const(array)
        params.append(relay.var(f"x{len(params)}", array.shape, array.dtype.name))
        given.append(array)
        return params[-1]

    args = [
        relay.Tuple([atom(x, k in constant) for x in a]) if isinstance(a, tuple) else atom(a, k in constant)
        for k, a in enumerate(arrays)
    ]
    op = get(name)
    function = relay.Function(params, relay.Call(op, args, op.attrs(**attrs)))
    result = relay.VirtualMachine(relay.compile(function, opt_level=opt_level)).run(*given)
    return np.array((result if hasattr(result, "numpy") else result[0]).numpy())


TAKEN = np.array([[2, 0, 1, 1]])
INDEXED = [
    Case("take", [DATA, [2, 0]], (1,), DATA[[2, 0]], axis=0),
    Case("gather", [DATA, TAKEN], (1,), np.take_along_axis(DATA, TAKEN, 0), axis=0),
    Case("gather_nd", [DATA, [[2, 0], [1, 1]]], (1,), DATA[[2, 0], [1, 1]]),
    Case("adv_index", [(DATA, [2, 0])], (), DATA[[2, 0]]),
    Case("one_hot", [[2, 0], np.float32(1), np.float32(0)], (0,), np.eye(4)[[2, 0]], depth=4),
    Case("scatter_elements", [DATA, TAKEN, np.full((1, 4), -5, np.float32)], (1,),
         np.where(np.array([0, 1, 2])[:, None] == TAKEN, -5, DATA)),
    Case("scatter_nd", [DATA, [[2, 0]], np.full((2, 4), -5, np.float32)], (1,), np.where([[1], [0], [1]], -5, DATA)),
    Case("sparse_to_dense", [[0, 3], np.float32([8, 9]), np.float32(0)], (0,), np.array([8, 0, 0, 9]), output_shape=(4,)),
    Case("unravel_index", [[1, 5], [2, 3]], (0, 1), np.array([[0, 1], [1, 2]])),
    Case("sequence_mask", [DATA, [2, 0, 4]], (1,), np.where(np.arange(4) < np.array([[2], [0], [4]]), DATA, 0), axis=1),
    Case("reverse_sequence", [DATA, [2, 0, 4]], (1,), np.stack([DATA[0][[1, 0, 2, 3]], DATA[1], DATA[2][::-1]])),
    Case("trilu", [DATA, 1], (1,), np.triu(DATA, 1)),
    Case("nn.nll_loss", [np.float32([[-1, -2]]), [1], np.float32([1, 0.5])], (1,), np.float32(2)),
    Case("image.crop_and_resize", [IMAGE, np.float32([[0, 0, 1, 1]]), [0]], (2,), IMAGE, crop_size=(3, 4), layout="NCHW"),
]  # fmt: skip
SIZED = [
    Case("dyn.reshape", [DATA, [4, 3]], (1,), DATA.reshape(4, 3)),
    Case("dyn.squeeze", [DATA[None], [0]], (1,), DATA),
    Case("dyn.expand_dims", [DATA, 1], (1,), DATA[:, None]),
    Case("dyn.strided_slice", [DATA, [1, 0], [3, 4], [1, 2]], (1, 2, 3), DATA[1:3, 0:4:2]),
    Case("dyn.tile", [DATA, [2, 1]], (1,), np.tile(DATA, (2, 1))),
    Case("dyn.broadcast_to", [DATA, [2, 3, 4]], (1,), np.broadcast_to(DATA, (2, 3, 4))),
    Case("dyn.full", [np.float32(3), [2]], (1,), np.full(2, 3)),
    Case("dyn.zeros", [[2]], (0,), np.zeros(2)),
    Case("dyn.ones", [[2]], (0,), np.ones(2)),
    Case("dyn.one_hot", [np.int32([2, 0]), np.float32(1), np.float32(0), 4], (3,), np.eye(4)[[2, 0]]),
    Case("dyn.topk", [DATA, 2], (1,), DATA[:, :1:-1]),
    Case("dyn.nn.pad", [DATA, [[1, 0], [0, 2]], np.float32(7)], (1,), np.pad(DATA, [(1, 0), (0, 2)], constant_values=7)),
    Case("dyn.image.resize2d", [IMAGE, [6, 8], np.float32([0, 0, 1, 1])], (1,), IMAGE.repeat(2, 2).repeat(2, 3),
         method="nearest_neighbor", coordinate_transformation_mode="asymmetric"),
    Case("dyn.nn.upsampling", [IMAGE, 2, 2], (1, 2), IMAGE.repeat(2, 2).repeat(2, 3)),
    Case("dyn.nn.upsampling3d", [IMAGE[None], 1, 2, 2], (1, 2, 3), IMAGE[None].repeat(2, 3).repeat(2, 4)),
    Case("dyn.sparse_to_dense", [np.int64([0, 3]), np.float32([8, 9]), np.float32(0), [4]], (3,), np.array([8, 0, 0, 9])),
    Case("strided_set", [DATA[0], np.float32([8, 9]), [0], [4], [2]], (2, 3, 4), np.array([8, 1, 9, 3])),
]  # fmt: skip
FILLED = [
    Case("full", [1], (0,), np.ones(2), shape=(2,), dtype="int8"),
    Case("full_like", [DATA, 1], (1,), np.ones((3, 4))),
    Case("nn.pad", [DATA, 1], (1,), np.pad(DATA, [(1, 1), (0, 0)], constant_values=1), pad_width=((1, 1), (0, 0))),
    Case("where", [[[0], [1], [1]], DATA, np.zeros_like(DATA)], (0,), np.where([[0], [1], [1]], DATA, 0)),
    Case("one_hot", [np.int32([2, 0]), 1, np.float32(0)], (1,), np.eye(4)[[2, 0]], depth=4, dtype="int8"),
]  # fmt: skip
#: Dtypes that no kernel takes; two of them run, the types of all are checked.
OTHER = tuple(d for d in INTEGERS if d not in INDICES)
IDS: dict[str, Callable[[Any], str]] = {"ids": lambda case: case.name}


@pytest.mark.parametrize("case", INDEXED, **IDS)
def test_indices_of_other_integers(case: Case) -> None:
    for dtype in ("uint8", "uint32"):
        np.testing.assert_array_equal(run(case.name, case.arrays(dtype), case.attrs), case.wanted, dtype)


@pytest.mark.extensive
@pytest.mark.spread("dtype")
@pytest.mark.parametrize("dtype", OTHER)
@pytest.mark.parametrize("case", INDEXED, **IDS)
def test_indices_of_every_integer(case: Case, dtype: str) -> None:
    for opt_level in (0, 3):
        np.testing.assert_array_equal(run(case.name, case.arrays(dtype), case.attrs, opt_level=opt_level), case.wanted)


@pytest.mark.parametrize("case", SIZED, **IDS)
def test_sizes_of_other_numbers(case: Case) -> None:
    for dtype in ("int16", "float32"):
        np.testing.assert_array_equal(run(case.name, case.arrays(dtype), case.attrs, fixed(case)), case.wanted, dtype)


def fixed(case: Case) -> tuple[int, ...]:
    """The inputs that must be constants: they decide the rank."""
    return case.varied if case.name in ("dyn.squeeze", "dyn.expand_dims") else ()


@pytest.mark.extensive
@pytest.mark.spread("dtype")
@pytest.mark.parametrize("dtype", [*OTHER, *FLOATS])
@pytest.mark.parametrize("case", SIZED, **IDS)
def test_sizes_of_every_number(case: Case, dtype: str) -> None:
    for opt_level, constant in ((0, fixed(case)), (3, fixed(case)), (0, case.varied), (3, case.varied)):
        found = run(case.name, case.arrays(dtype), case.attrs, constant, opt_level)
        np.testing.assert_array_equal(found, case.wanted, f"{opt_level} {constant}")


@pytest.mark.parametrize("case", FILLED, **IDS)
def test_fill_values_of_other_dtypes(case: Case) -> None:
    for dtype in ("int64", "bool"):
        np.testing.assert_array_equal(run(case.name, case.arrays(dtype), case.attrs), case.wanted, dtype)


@pytest.mark.extensive
@pytest.mark.spread("dtype")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", FILLED, **IDS)
def test_fill_values_of_every_dtype(case: Case, dtype: str) -> None:
    np.testing.assert_array_equal(run(case.name, case.arrays(dtype), case.attrs), case.wanted)


def test_an_index_beyond_int64_is_out_of_range() -> None:
    beyond = np.array([2**63 + 1, 1], np.uint64)
    np.testing.assert_array_equal(run("take", [DATA, beyond], {"axis": 0}), DATA[[2, 1]])  # clipped to the last
    with pytest.raises(relay.VMError, match="index is out of range"):
        run("take", [DATA, beyond], {"axis": 0, "mode": "fast"})
    with pytest.raises(relay.VMError, match="index is out of range"):
        run("gather_nd", [DATA, beyond[None]], {})
    for axis in (0, None):
        wanted = np.take(DATA, [(2**63 + 1) % (DATA.shape[0] if axis == 0 else DATA.size), 1], axis)
        np.testing.assert_array_equal(run("take", [DATA, beyond], {"axis": axis, "mode": "wrap"}), wanted)


def test_a_size_that_is_no_whole_number_is_cut_and_nan_is_none() -> None:
    np.testing.assert_array_equal(run("dyn.tile", [DATA, np.float32([1.9, 1])], {}), DATA)
    for constant in ((), (1,)):
        with pytest.raises((relay.VMError, relay.TypeCheckError), match=r"negative|must"):
            run("dyn.tile", [DATA, np.float32([np.nan, 1])], {}, constant)


def test_lengths_that_are_no_whole_numbers() -> None:
    wanted = np.where(np.arange(4) < np.array([[0.5], [0], [2.25]]), DATA, 0)
    np.testing.assert_array_equal(run("sequence_mask", [DATA, np.float16([0.5, 0, 2.25])], {"axis": 1}), wanted)


@pytest.mark.parametrize("dtype", ["bool", "float32"])
def test_what_is_no_index(dtype: str) -> None:
    for case in INDEXED:
        if case.name == "sequence_mask":
            continue  # a length is a number
        with pytest.raises(relay.TypeCheckError, match=f"is {dtype}; supported: int8, int16"):
            run(case.name, case.arrays(dtype), case.attrs)


def test_a_kernel_takes_its_own_dtypes_only() -> None:
    """A damaged executable may hold a call that the compiler would have legalized."""
    params = [Tensor("float32", (dim(3),)), Tensor("int16", (dim(2),))]
    with pytest.raises(TypeRelError, match=r"take: no kernel takes inputs of the dtypes \('float32', 'int16'\)"):
        build_group(params, (), [Node("take", get("take").attrs(axis=0), (0, 1), ())], [2])
