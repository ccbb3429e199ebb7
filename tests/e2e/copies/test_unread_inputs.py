"""Inputs that a kernel does not read: they are found, never copied for the kernel, and never accessed."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.inputs.given_inputs import Wanted, make_inputs
from relayvm.compiler.load_program import function_of
from relayvm.ops.analysis.uses import reads
from relayvm.ops.codegen import kernel_source
from relayvm.ops.core.group import Group
from relayvm.ops.core.type_relation import shape_program
from relayvm.ops.native.object_layout import TENSOR
from relayvm.ops.native.threads import team
from relayvm.vm.runtime.kernels.kernel_addresses import kernel_function

from ...devices import TARGETS
from ...programs import HEADER

ROOT = Path(__file__).resolve().parents[3]
X, Y, V = "%x: Tensor[(?n, ?m), float32]", "%y: Tensor[(?, ?), float32]", "%v: Tensor[(2), int64]"
#: Parameters, what is computed of them, and which of the parameters of its one kernel that kernel reads.
CASES = {
    "of a broadcast the shape": (f"{X}, {V}", "dyn.broadcast_to(%x, %v)", (True, False)),
    "of a filled tensor nothing": (V, 'dyn.full(1f, %v, dtype="float32")', (False,)),
    "of a like-tensor nothing": (f"{X}, {Y}", "broadcast_to_like(%x, %y)", (True, False)),
    "of a sum with it everything": (f"{X}, {Y}", "add(%y, broadcast_to_like(%x, %y))", (True, True)),
    "of zeros and what makes them nothing": (X, "add(zeros_like(exp(%x)), ones_like(%x))", (False,)),
    "of a filled one the value": (f"{X}, %c: float32", "full_like(%x, %c)", (False, True)),
    "of top-k not the count": (f"{X}, %k: int64", 'dyn.topk(%x, %k, axis=1, ret_type="values")', (True, False)),
    "of a slice where it begins": (f"{X}, {V}, %e: Tensor[(2), int64]", "dyn.strided_slice(%x, %v, %e, %v)", (True, True, False)),
    "of a size that only the shape knows the shape": (f"{X}, {V}", "sum(dyn.broadcast_to(%x, %v), axis=[1])", (True, True)),
    "of a size that the result has as well nothing": (f"{X}, {V}", "exp(dyn.broadcast_to(%x, %v))", (True, False)),
}  # fmt: skip


def arguments(params: str, draw: st.DataObject) -> list[np.ndarray]:
    """Values for X, Y, V and the like, that fit together."""
    n, m = draw.draw(st.integers(1, 3)), draw.draw(st.integers(1, 3))
    named = {
        "x": np.arange(n * m, dtype=np.float32).reshape(n, m),
        "y": np.full((n, m), 7, np.float32),
        "v": np.array([1, 1]) if "%e" in params else np.array([n, m]),
        "e": np.array([n, m]),
        "c": np.array(2.5, np.float32),
        "k": np.array(1),
    }
    return [named[name] for name in re.findall(r"%(\w+):", params)]


def kernel_of(params: str, body: str, **config: Any) -> Group:
    """The group of the one kernel, which allocates its workspace."""
    (packed,) = relay.compile(f"{HEADER}def @main({params}) {{ {body} }}", target="sim", **config).packed
    return replace(packed.group, workspace=False)


@pytest.mark.parametrize("name", CASES)
def test_what_is_read_is_known(name: str) -> None:
    params, body, read = CASES[name]
    assert reads(kernel_of(params, body)) == read


def results(group: Group, inputs: list[np.ndarray], missing: tuple[bool, ...]) -> list[np.ndarray]:
    """The results of the kernel as plain Python; the ``missing`` inputs have sizes and no memory."""
    values = group.values()
    shapes = shape_program(group).program.run(inputs)
    outputs = [np.zeros(shape, values[r].dtype) for shape, r in zip(shapes, group.results, strict=True)]
    arrays = [*inputs, *outputs]
    records = np.zeros(len(arrays), TENSOR)
    for i, (record, a) in enumerate(zip(records, arrays, strict=True)):
        record["data"], record["ndim"] = 0 if i < len(missing) and missing[i] else a.ctypes.data, a.ndim
        record["shape"][: a.ndim] = a.shape
    argv = np.array([records[i:].ctypes.data for i in range(len(arrays))] + [0, team.ALONE.ctypes.data], np.int64)
    assert kernel_function(kernel_source(group))(argv.ctypes.data, len(arrays)) == 0
    return outputs


@settings(max_examples=5)
@given(st.data())
@pytest.mark.parametrize("name", CASES)
def test_what_is_not_read_need_not_be_there(name: str, data: st.DataObject) -> None:
    params, body, read = CASES[name]
    group, inputs = kernel_of(params, body), arguments(params, data)
    whole = results(group, inputs, tuple(False for _ in read))
    without = results(group, inputs, tuple(not r for r in read))
    for a, b in zip(whole, without, strict=True):
        np.testing.assert_array_equal(a, b)


#: Program, arguments, and how many copies to the device it takes (those of arguments that are read among them).
COPIES = {
    "a shape from a shape": (f'{X}, {Y}', "dyn.broadcast_to(%x, shape_of(%y, dtype=\"int64\"))", 1),
    "a shape of another dtype": (f'{X}, {Y}', 'dyn.broadcast_to(%x, shape_of(%y, dtype="int32"))', 1),
    "a shape that is given": (f"{X}, {V}", "dyn.broadcast_to(%x, %v)", 1),
    "a shape that is computed": (f"{X}, {V}", "dyn.broadcast_to(%x, maximum(%v, shape_of(%x, dtype=\"int64\")))", 1),
    "a like-tensor": (f"{X}, {Y}", "broadcast_to_like(%x, %y)", 1),
    "zeros": (X, "zeros_like(%x)", 0),
    "a count": (f"{X}, %k: int64", 'dyn.topk(%x, %k, axis=1, ret_type="values")', 1),
}  # fmt: skip


@pytest.mark.parametrize("place", ["on", "off"])
@pytest.mark.parametrize("name", COPIES)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.extensive(place=["on"])
@pytest.mark.spread("target")
def test_what_is_not_read_is_not_copied(target: str, name: str, place: str) -> None:
    params, body, copies = COPIES[name]
    text = f"{HEADER}def @main({params}) {{ {body} }}"
    args = [np.ones((2, 3), np.float32), np.array([2, 3]) if "%v" in params else np.array(1)]
    args = [args[0] if "float32" in p else args[1] for p in params.split(", %")]
    found = relay.VirtualMachine(relay.compile(text, target=target, place=place))
    result = found.run(*args).numpy()
    np.testing.assert_allclose(result, relay.VirtualMachine(relay.compile(text)).run(*args).numpy(), rtol=1e-6)
    if place == "on":
        assert found.counters["htod_copies"] == copies


#: The most copies to the device of a first run; in the shapes of the exporter 36 fused kernels' inputs decide sizes that no
#: tensor of theirs has, and are read.
EXAMPLES = {"detection_tail": 4, "exporter_shapes": 40}  # with two arguments and two constants


@pytest.mark.spread("target")
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", EXAMPLES)
def test_copies_to_the_device_in_the_examples(target: str, name: str) -> None:
    exe = relay.compile(ROOT / "examples" / f"{name}.relay", target=target)
    vm = relay.VirtualMachine(exe)
    vm.run(*make_inputs(function_of(exe, "main"), Wanted(dims={"n": 5})))
    assert vm.counters["htod_copies"] <= EXAMPLES[name]
