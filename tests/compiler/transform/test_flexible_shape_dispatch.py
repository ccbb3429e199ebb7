"""``relay.transform.FlexibleShapeDispatch``: versions of ``main`` for buckets of sizes, against the plain program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.expr import IRModule
from relayvm.compiler.ir.structural_equal import structural_equal
from relayvm.compiler.ir.visitor import post_order
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ...programs import HEADER

Dispatch = relay.transform.FlexibleShapeDispatch
ROWS = "def @main(%x: Tensor[(?n, 4), float32]) { exp(%x) }"


def parsed(text: str) -> IRModule:
    return relay.parse(HEADER + text)


def called(mod: IRModule) -> set[str]:
    """The functions that ``main`` calls."""
    return {n.name for n in post_order(mod["main"]) if isinstance(n, relay.GlobalVar)}


def parameters(mod: IRModule, name: str) -> list[str]:
    return [str(p.type_annotation) for p in mod[name].params]


def arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=s).astype("float32") for s in shapes]


class Pair:
    """Machines of a program and of the program after dispatch."""

    def __init__(self, mod: IRModule, out: IRModule, target: str) -> None:
        self.plain, self.new = (relay.VirtualMachine(relay.compile(m, target)) for m in (mod, out))

    def check(self, inputs: list[np.ndarray]) -> None:
        expected, found = (_leaves(vm.run(*inputs)) for vm in (self.plain, self.new))
        assert [f.shape for f in found] == [e.shape for e in expected]
        for f, e in zip(found, expected, strict=True):
            np.testing.assert_allclose(f, e, rtol=1e-5)


def _leaves(result: Any) -> list[np.ndarray]:
    return [x for r in result for x in _leaves(r)] if isinstance(result, (tuple, list)) else [result.numpy()]


# ---- equal results ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize("auto_pad", [False, True])
def test_all_sizes_around_the_borders(auto_pad: bool, target: str) -> None:
    mod = parsed(ROWS)
    pair = Pair(mod, Dispatch([5, 2], auto_pad=auto_pad)(mod), target)
    for n in range(7):
        pair.check(arrays((n, 4)))


TWO = """def @main(%x: Tensor[(?b, ?s), float32], %y: Tensor[(?s), float32])
    -> (Tensor[(?b, ?s), float32], Tensor[(?s, ?b), float32]) {
  let %z = add(%x, %y);
  (%z, transpose(%z))
}"""


@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize("auto_pad", [False, True])
def test_two_dims(auto_pad: bool, target: str) -> None:
    mod = parsed(TWO)
    out = Dispatch([(1, 2), (2, 4)], axis=[0, 1], auto_pad=auto_pad, pad_value=7)(mod)
    assert parameters(out, "main_1_2") == ["Tensor[(1, 2), float32]", "Tensor[(2), float32]"]
    pair = Pair(mod, out, target)
    for b in range(4):
        for s in range(6):
            pair.check(arrays((b, s), (s,)))


def test_two_inputs_whose_sizes_are_not_known_to_be_equal() -> None:
    mod = parsed("def @main(%x: Tensor[(?, 4), float32], %y: Tensor[(?, 4), float32]) { (exp(%x), exp(%y)) }")
    out = Dispatch([2, 4], auto_pad=True, input_indices=[0, 1])(mod)
    assert parameters(out, "main_4") == ["Tensor[(4, 4), float32]"] * 2
    pair = Pair(mod, out, "cpu")
    for n, m in [(1, 1), (2, 2), (3, 3), (3, 2), (2, 3), (5, 5)]:
        pair.check(arrays((n, 4), (m, 4)))  # different sizes run the program for every size


def test_a_program_of_one_size_becomes_one_of_any_size() -> None:
    mod = parsed("def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] { exp(%x) }")
    out = Dispatch([1, 3])(mod)
    assert (
        parameters(out, "main") == ["Tensor[(?n, 4), float32]"]
        and str(out["main_3"].body.checked_type) == "Tensor[(3, 4), float32]"
    )
    pair = Pair(parsed(ROWS), out, "cpu")
    for n in range(5):
        pair.check(arrays((n, 4)))


def test_a_result_without_the_size() -> None:
    mod = parsed("def @main(%x: Tensor[(?n, 4), float32]) { sum(%x, axis=[0]) }")
    for options in ({}, {"affects_output": False}):
        pair = Pair(mod, Dispatch([2, 4], auto_pad=True, **options)(mod), "cpu")
        for n in (0, 1, 2, 3, 4, 5):
            pair.check(arrays((n, 4)))


def test_pad_value_and_results_that_keep_the_added_part() -> None:
    mod = parsed("def @main(%x: Tensor[(?n, 2), int32]) { (%x + 1, -%x) }")
    vm = relay.VirtualMachine(relay.compile(Dispatch([3], auto_pad=True, pad_value=9, output_indices=[1])(mod)))
    first, second = vm.run(np.zeros((2, 2), "int32"))
    np.testing.assert_array_equal(first.numpy(), [[1, 1], [1, 1], [10, 10]])
    assert second.shape == (2, 2)
    vm = relay.VirtualMachine(relay.compile(Dispatch([3], auto_pad=True, pad_value=9, affects_output=False)(mod)))
    assert [r.shape for r in vm.run(np.zeros((2, 2), "int32"))] == [(3, 2), (3, 2)]


def test_declared_results_that_keep_the_added_part() -> None:
    mod = parsed("def @main(%x: Tensor[(?n, 2), float32]) -> Tensor[(?n, 2), float32] { exp(%x) }")
    vm = relay.VirtualMachine(relay.compile(Dispatch([3], auto_pad=True, affects_output=False)(mod)))
    assert [vm.run(*arrays((n, 2))).shape for n in (2, 3, 4)] == [(3, 2), (3, 2), (4, 2)]


def test_buckets_for_a_program_with_buckets() -> None:
    mod = parsed(ROWS)
    out = Dispatch([5], auto_pad=True)(Dispatch([2], auto_pad=True)(mod))
    assert {"main_2", "main_5", "main_any", "main_any1"} < set(out.functions)
    pair = Pair(mod, out, "cpu")
    for n in range(7):
        pair.check(arrays((n, 4)))


@pytest.mark.parametrize(("dtype", "value"), [("bool", 0), ("bool", True), ("float16", np.float32(2)), ("uint8", np.int64(255))])
def test_pad_values_of_dtypes(dtype: str, value: Any) -> None:
    out = Dispatch([2], auto_pad=True, pad_value=value)(parsed(f"def @main(%x: Tensor[(?n), {dtype}]) {{ %x }}"))
    (pad,) = {n for n in post_order(out["main"]) if isinstance(n, relay.Constant) and str(n.data.dtype) == dtype}
    assert pad.data == value


def test_recursion_and_other_functions() -> None:
    mod = parsed("""
        def @twice(%x: Tensor[(?n, 4), float32]) { add(%x, %x) }
        def @main_2(%x: float32) { %x }
        def @main(%x: Tensor[(?n, 4), float32], %k: int64) -> Tensor[(?n, 4), float32] {
          if (less(%k, 1i64)) { %x } else { @main(@twice(%x), subtract(%k, 1i64)) }
        }""")
    out = Dispatch([2], auto_pad=True)(mod)
    assert {"main_2", "main_21", "main_any", "twice"} < set(out.functions) and called(out) == {"main_21", "main_any"}
    pair = Pair(mod, out, "cpu")
    for n in (1, 2, 3):
        pair.check([*arrays((n, 4)), np.array(3)])


# ---- the module ------------------------------------------------------------------------------------------------------


def test_text_of_the_module() -> None:
    out = Dispatch([2])(parsed(ROWS))
    expected = parsed("""
        def @main(%x: Tensor[(?n, 4), float32]) -> Tensor[(?n, 4), float32] {
          let %n = take(shape_of(%x, dtype="int64"), 0i64);
          if (equal(%n, 2i64)) { let %main_2 = @main_2(%x); %main_2 } else { @main_any(%x) }
        }
        def @main_any(%x: Tensor[(?n, 4), float32]) { exp(%x) }
        def @main_2(%x: Tensor[(2, 4), float32]) { exp(%x) }
    """)
    both = map(relay.transform.InferType(), (out, expected))
    assert structural_equal(*(infer_type(to_a_normal_form(mod)) for mod in both))
    assert structural_equal(relay.transform.InferType()(relay.parse(out.astext())), out)


def test_sizes_of_the_versions_are_static() -> None:
    text = (
        'def @main(%x: Tensor[(?n, 4), float32]) { dyn.reshape(%x, prod(shape_of(%x, dtype="int64"), axis=[0], keepdims=True)) }'
    )
    seq = relay.transform.Sequential([Dispatch([2, 8]), relay.transform.DynamicToStatic()])
    out = seq(parsed(text))
    assert [str(out[f].body.checked_type) for f in ("main_2", "main_8")] == ["Tensor[(8), float32]", "Tensor[(32), float32]"]


def test_the_given_module_is_unchanged() -> None:
    mod = parsed(ROWS)
    before = mod.astext()
    Dispatch([2], auto_pad=True)(mod)
    assert mod.astext() == before


# ---- bad input -------------------------------------------------------------------------------------------------------


WRONG: list[tuple[Any, str]] = [
    (lambda: Dispatch(8), "FlexibleShapeDispatch: buckets must be a list or tuple, not the int 8"),
    (lambda: Dispatch([]), "FlexibleShapeDispatch: 0 buckets are given; 1 to 64 are possible"),
    (lambda: Dispatch(list(range(1, 99))), "FlexibleShapeDispatch: 98 buckets are given; 1 to 64 are possible"),
    (lambda: Dispatch([0]), "FlexibleShapeDispatch: a size of a bucket must be a whole number of at least 1, not the int 0"),
    (
        lambda: Dispatch([2.5]),
        "FlexibleShapeDispatch: a size of a bucket must be a whole number of at least 1, not the float 2.5",
    ),
    (lambda: Dispatch([4, 2, 4]), "FlexibleShapeDispatch: the bucket 4 is given twice"),
    (lambda: Dispatch([(1, 2)]), "FlexibleShapeDispatch: a bucket must be a size, not the tuple (1, 2)"),
    (lambda: Dispatch([3], axis=(0, 1)), "FlexibleShapeDispatch: a bucket must be 2 sizes, as there are 2 axes, not the int 3"),
    (lambda: Dispatch([3], axis="0"), "FlexibleShapeDispatch: an axis must be a whole number, not the str '0'"),
    (lambda: Dispatch([3], axis=[]), "FlexibleShapeDispatch: axis must be an axis, or a list of axes, not the list []"),
    (lambda: Dispatch([3], auto_pad=1), "FlexibleShapeDispatch: auto_pad must be True or False, not the int 1"),
    (lambda: Dispatch([3], affects_output=None), "FlexibleShapeDispatch: affects_output must be True or False, not None"),
    (
        lambda: Dispatch([3], auto_pad=True, pad_value="0"),
        "FlexibleShapeDispatch: the pad_value must be a number, not the str '0'",
    ),
    (lambda: Dispatch([3], input_indices=0), "FlexibleShapeDispatch: input_indices must be a list or tuple, not the int 0"),
    (lambda: Dispatch([3], input_indices=[]), "FlexibleShapeDispatch: input_indices must be a list of numbers, not the list []"),
    (lambda: Dispatch([3], input_indices=[-1]), "input_indices: a number must be a whole number of at least 0, not the int -1"),
    (lambda: Dispatch([3], output_indices=[[0], [1]]), "output_indices must be a list of numbers, not the list [[0], [1]]"),
    (lambda: Dispatch([3], output_indices=[0], affects_output=False), "output_indices lists results, and affects_output=False"),
    (lambda: Dispatch([3])(parsed("def @f(%x: float32) { %x }")), "FlexibleShapeDispatch: the module has no function @main"),
    (lambda: Dispatch([3])(parsed("def @main() { 1f }")), "FlexibleShapeDispatch: there is no input 0; @main has 0 parameters"),
    (lambda: Dispatch([3], input_indices=[1])(parsed(ROWS)), "FlexibleShapeDispatch: there is no input 1; @main has 1 parameter"),
    (lambda: Dispatch([3], 2)(parsed(ROWS)), "FlexibleShapeDispatch: %x, a Tensor[(?n, 4), float32], has no axis 2"),
    (
        lambda: Dispatch([3])(parsed("def @main(%x: (float32, float32)) { %x.0 }")),
        "FlexibleShapeDispatch: %x is (float32, float32); only a tensor has a flexible axis",
    ),
    (
        lambda: Dispatch([(3, 3)], [0, 1])(parsed("def @main(%x: Tensor[(?n, ?n), float32]) { %x }")),
        "FlexibleShapeDispatch: the flexible axis 1 has the size of another one",
    ),
    (
        lambda: Dispatch([3], auto_pad=True)(parsed("def @main(%x: Tensor[(?n, 4), float32]) { concatenate((%x, %x), axis=0) }")),
        "FlexibleShapeDispatch: result 0, Tensor[(?, 4), float32], has a size that may depend on the flexible size",
    ),
    (
        lambda: Dispatch([3], 0, True, output_indices=[0])(parsed("def @main(%x: Tensor[(?n, 4), float32]) { sum(%x) }")),
        "FlexibleShapeDispatch: result 0, float32, has no flexible size on axis 0",
    ),
    (
        lambda: Dispatch([3], 0, True, 0.5)(parsed("def @main(%x: Tensor[(?n), int32]) { %x }")),
        "FlexibleShapeDispatch: the pad_value 0.5 is no int32, the dtype of %x",
    ),
    (
        lambda: Dispatch([3], 0, True, 1e300)(parsed("def @main(%x: Tensor[(?n), float16]) { %x }")),
        "FlexibleShapeDispatch: the pad_value 1e+300 is no float16, the dtype of %x",
    ),
    (
        lambda: Dispatch([3], 0, True, 2**70)(parsed("def @main(%x: Tensor[(?n), int64]) { %x }")),
        "FlexibleShapeDispatch: the pad_value 1180591620717411303424 is no int64, the dtype of %x",
    ),
    (
        lambda: Dispatch([3], 0, True, output_indices=[1])(parsed(ROWS)),
        "FlexibleShapeDispatch: there is no result 1; @main has 1 result",
    ),
    (
        lambda: Dispatch([2**70]),
        "FlexibleShapeDispatch: a size of a bucket is 1180591620717411303424; at most 9223372036854775807 is possible",
    ),
    (
        lambda: Dispatch([3], 0, True)(parsed("def @main(%x: Tensor[(?n), int32], %t: (Tensor[(?n), int32], int32)) { %x }")),
        "FlexibleShapeDispatch: %t has the flexible size inside of (Tensor[(?n), int32], int32); only a tensor can be padded",
    ),
]


@pytest.mark.parametrize(("make", "message"), WRONG, ids=[m.removeprefix("FlexibleShapeDispatch: ")[:40] for _, m in WRONG])
def test_wrong_arguments(make: Any, message: str) -> None:
    with pytest.raises(relay.RelayError) as raised:
        make()
    assert message in str(raised.value) and raised.value.diagnostics[0].span is not None
    assert "test_flexible_shape_dispatch.py" in str(raised.value)


def test_a_bucket_that_the_program_refuses_is_a_type_error() -> None:
    mod = parsed("def @main(%x: Tensor[(?n, 4), float32]) { split(%x, indices_or_sections=3).0 }")
    assert "main_3" in Dispatch([3])(mod)
    with pytest.raises(relay.TypeCheckError, match="split"):
        Dispatch([4])(mod)
