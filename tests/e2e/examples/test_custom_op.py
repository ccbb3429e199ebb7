"""Operators of users: the example, rejected declarations, and replaced shape functions of existing operators."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.op import REGISTRY, get
from relayvm.shape_funcs.symbolic.dim_operations import eq, not_
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, check
from relayvm.vm.bytecode.disassembly import disassembly

from ...devices import DEVICES, TARGETS
from ...ops.cuda import on_gpu

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "custom_op.py"
OPERATORS = ("my.hard_swish", "my.head_sums")


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    """The example, its operators declared while these tests run."""
    spec = importlib.util.spec_from_file_location("custom_op_example", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.register()
    yield module
    for name in OPERATORS:
        relay.unregister_op(name)
    assert not {*OPERATORS} & {*REGISTRY, *SHAPE_FUNCS}


def array(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fuse", [True, False])
def test_from_text_and_built(example: ModuleType, device: str, fuse: bool) -> None:
    for program in (example.TEXT, example.built()):
        vm = relay.VirtualMachine(relay.compile(program, target=device, fuse=fuse))
        for rows, columns, count in ((7, 5, 4), (1, 1, 1), (0, 3, 0), (3, 0, 2), (101, 97, 101)):
            x = array(rows, columns)
            result = vm.run(x, np.array(count)).numpy()
            assert result.shape == (count, columns)
            np.testing.assert_allclose(result, example.expected(x, count), rtol=1e-4, atol=1e-4)


def test_the_element_is_fused_with_its_neighbours(example: ModuleType) -> None:
    exe = relay.compile(example.TEXT)
    assert sorted(p.name for p in exe.packed) == ["fused_multiply_my_hard_swish_add", "my_head_sums"]
    assert len(relay.compile(example.TEXT, fuse=False).packed) == 4


@pytest.mark.parametrize("target", TARGETS)
def test_only_the_flagged_input_crosses(example: ModuleType, target: str) -> None:
    vm = relay.VirtualMachine(relay.compile(example.TEXT, target=target, place="off"))
    vm.run(array(100, 100), np.array(2))
    assert vm.counters["dtoh_bytes"] == 8
    assert get("my.head_sums").data_dependent == (False, True)


@pytest.mark.parametrize("device", DEVICES)
def test_its_own_check_names_the_place_and_the_sizes(example: ModuleType, device: str) -> None:
    vm = relay.VirtualMachine(relay.compile(relay.parse(example.TEXT, source_name="mine.relay"), target=device))
    with pytest.raises(relay.VMError, match=r"my.head_sums: the count is 4, but there are only 3 rows") as error:
        vm.run(array(3, 2), np.array(4))
    assert "mine.relay:3:" in str(error.value)


def test_saved_and_loaded(example: ModuleType, tmp_path: Path) -> None:
    relay.compile(example.TEXT).save(tmp_path / "mine.rvm")
    vm = relay.VirtualMachine(relay.Executable.load(tmp_path / "mine.rvm"))
    x = array(4, 3)
    np.testing.assert_allclose(vm.run(x, np.array(2)).numpy(), example.expected(x, 2), rtol=1e-5, atol=1e-5)
    assert "my_head_sums" in disassembly(relay.compile(example.TEXT))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_its_body_for_gpus(example: ModuleType, dtype: str) -> None:
    for shape, count in (((5, 3), 4), ((300, 7), 300), ((2, 0), 1), ((0, 4), 0)):
        x = (array(*shape) * 9).astype(dtype)
        (result,), status, _ = on_gpu.run("my.head_sums", [x, np.array(count)])
        assert status == 0 and result.dtype == dtype
        np.testing.assert_allclose(result, np.cumsum(x, 0, dtype=dtype)[:count], rtol=1e-4, atol=1e-4)


def test_type_errors_are_as_for_any_operator(example: ModuleType) -> None:
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(3), int32]) {{ {} }}'
    for call, message in (
        ("my.hard_swish(%x)", "my.hard_swish: x is int32; supported: float32, float64"),
        ("my.hard_swish(%x, reach=True)", "reach"),
        ("my.hard_swish(%x, %x)", "takes 1 argument"),
        ("my.hard_swash(%x)", "my.hard_swish"),
    ):
        with pytest.raises(relay.RelayError, match=message):
            relay.compile(text.format(call))


# ---- rejected operators ------------------------------------------------------------------------------------------------------


def nothing(*arrays: Any) -> int:
    """Do nothing."""
    return 0


@pytest.mark.parametrize(
    ("name", "more", "message"),
    [
        ("my op", {"element": lambda x: x}, "an operator's name is words with dots between them, not 'my op'"),
        ("my.op", {}, "operator 'my.op': give either element or kernel"),
        ("my.op", {"element": lambda x: x, "kernel": nothing}, "operator 'my.op': give either element or kernel"),
        ("my.op", {"kernel": nothing}, "operator 'my.op' has no shape function: register one with register_shape_func"),
        ("my.op", {"element": lambda x: x, "cuda": "out[at] = 0;"}, "cuda goes with kernel"),
        ("tile", {"element": lambda x: x}, "operator 'tile': declared twice"),
    ],
)
def test_what_is_no_operator(name: str, more: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        relay.register_op(name, ["x"], **more)
    assert "my.op" not in REGISTRY and "my op" not in REGISTRY


def test_only_what_was_registered_is_forgotten() -> None:
    with pytest.raises(ValueError, match="operator 'tile' was not declared with register_op"):
        relay.unregister_op("tile")


# ---- another shape function --------------------------------------------------------------------------------------------------

TILE = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(?, ?), float32], %r: Tensor[(2), int64]) { dyn.tile(%x, %r) }'


def crossed(target: str) -> int:
    vm = relay.VirtualMachine(relay.compile(TILE, target=target, place="off", data_dependence="input"))
    x = array(64, 32)
    np.testing.assert_array_equal(vm.run(x, np.array([1, 2])).numpy(), np.tile(x, (1, 2)))
    return int(vm.counters["dtoh_bytes"]) - 2 * x.nbytes


@pytest.mark.parametrize("target", TARGETS)
def test_flags_of_an_operator_are_replaced_and_brought_back(target: str) -> None:
    before = SHAPE_FUNCS["dyn.tile"]

    def reads_all(inputs: Any, attrs: Any) -> Any:
        check(not_(eq(inputs[0].values[0], 12345)), "the data begins with a bad number")
        return before.body(inputs, attrs)

    assert crossed(target) == 16
    relay.register_shape_func("dyn.tile", [True, True], reads_all)
    try:
        assert get("dyn.tile").data_dependent == (True, True)
        vm = relay.VirtualMachine(relay.compile(TILE.replace("(?, ?)", "(64, 32)"), target=target, place="off"))
        x = array(64, 32)
        result = vm.run(x, np.array([1, 2]))
        assert result.shape == (64, 64) and vm.counters["dtoh_bytes"] == 16 + x.nbytes
    finally:
        relay.restore_shape_func("dyn.tile")
    assert SHAPE_FUNCS["dyn.tile"] is before and crossed(target) == 16


@pytest.mark.parametrize("target", TARGETS)
def test_a_shape_that_follows_from_data(target: str) -> None:
    """``copy`` of a matrix, as many rows of which are taken as its first element says."""
    text = '#[version = "0.0.5"]\ndef @main(%x: Tensor[(4, 2), int64]) { copy(%x) }'
    relay.register_shape_func("copy", [True], lambda inputs, attrs: (inputs[0].values[0], inputs[0].shape[1]))
    try:
        vm = relay.VirtualMachine(relay.compile(text, target=target, place="off"))
        x = np.array([[3, 1], [4, 1], [5, 9], [2, 6]])
        result = vm.run(x)
        assert vm.counters["dtoh_bytes"] == x.nbytes
        np.testing.assert_array_equal(result.numpy(), x[:3])
    finally:
        relay.restore_shape_func("copy")
    assert relay.VirtualMachine(relay.compile(text, target=target)).run(x).shape == (4, 2)


def test_shape_functions_that_do_not_fit() -> None:
    body = SHAPE_FUNCS["dyn.tile"].body
    with pytest.raises(ValueError, match=r"operator 'dyn.tile' has 2 inputs \(data, reps\), not 3 flags"):
        relay.register_shape_func("dyn.tile", [True, False, True], body)
    with pytest.raises(ValueError, match=r"operator 'dyn.tile' has a shape function already"):
        relay.register_shape_func("dyn.tile", [True, True])(body)
    with pytest.raises(ValueError, match="operator 'copy' has no kernel of its own that could report a size"):
        relay.register_shape_func("copy", False, body, upper_bound=True)
    with pytest.raises(ValueError, match=r"the shape function of operator 'dyn.tile' was not replaced"):
        relay.restore_shape_func("dyn.tile")
    assert SHAPE_FUNCS["dyn.tile"].body is body and "copy" not in SHAPE_FUNCS
