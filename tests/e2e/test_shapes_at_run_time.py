"""Shapes at run time: known sizes are not computed, a fused group's shapes are one program, a contradiction has a source span."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.shape_funcs.symbolic.program import OPERATIONS

from ..arrays import floats
from ..devices import DEVICES, HOST
from ..programs import HEADER

VEC, MAT = "Tensor[(?n), float32]", "Tensor[(?n, ?m), float32]"


def compiled(target: str, program: str, **config: object) -> relay.Executable:
    return relay.compile(HEADER + program, target=target, place="off", **config)


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("fuse", ["on", "off"])
def test_an_elementwise_chain_runs_no_shape_function(target: str, fuse: str) -> None:
    program = f"def @main(%x: {MAT}, %y: {MAT}) {{ tanh(add(multiply(exp(%x), 2f), where(less(%x, %y), %y, negative(%x)))) }}"
    exe = compiled(target, program, fuse=fuse)
    assert exe.shape_funcs == ()
    vm = relay.VirtualMachine(exe)
    x, y = floats(3, 4) / 9, floats(3, 4)[::-1].copy() / 9
    got = vm.run(x, y).numpy()
    np.testing.assert_allclose(got, np.tanh(np.exp(x) * 2 + np.where(x < y, y, -x)), rtol=1e-6)
    assert vm.counters["shape_func_calls"] == 0
    assert vm.counters["launches"] == (1 if fuse == "on" else 7)


@pytest.mark.parametrize("target", DEVICES)
def test_a_group_has_one_program_with_each_expression_once(target: str) -> None:
    program = f"""def @main(%x: {VEC}, %y: Tensor[(?m), float32]) {{
      let %c = concatenate((%x, %y), axis=0);
      let %s = stack((exp(%c), tanh(%c)), axis=0);
      transpose(%s, axes=[1, 0])
    }}"""
    exe = compiled(target, program)
    (shapes,) = exe.shape_funcs
    assert sum(OPERATIONS[row[0]] == "add" for row in shapes.rows) == 1, str(shapes)
    vm = relay.VirtualMachine(exe)
    x, y = floats(3), floats(2)
    c = np.concatenate([x, y])
    np.testing.assert_allclose(vm.run(x, y).numpy(), np.stack([np.exp(c), np.tanh(c)]).T, rtol=1e-6)
    assert vm.counters["shape_func_calls"] == 1 and vm.counters["launches"] == 1


#: A program, arguments that contradict one another, the message and the note with the shapes.
CONTRADICTIONS = {
    "broadcast": (
        "def @main(%x: Tensor[(?, 2, 1), float32], %y: Tensor[(?, 1), float32]) { exp(add(%x, %y)) }",
        (floats(3, 2, 1), floats(4, 1)),
        "add: sizes 2 and 4 do not broadcast (axis 0 of argument 2)",
        "operands: Tensor[(3, 2, 1), float32], Tensor[(4, 1), float32]",
    ),
    "where": (
        f"def @main(%c: Tensor[(?), bool], %x: {VEC}, %y: Tensor[(?, ?), float32]) {{ where(%c, %x, %y) }}",
        (np.ones(1, bool), floats(3), floats(2, 5)),
        "where: sizes 3 and 5 do not broadcast (axis 1 of argument 3)",
        "operands: Tensor[(1), bool], Tensor[(3), float32], Tensor[(2, 5), float32]",
    ),
    "broadcast_to_like": (
        f"def @main(%x: {VEC}, %y: {MAT}) {{ broadcast_to_like(%x, %y) }}",
        (floats(3), floats(3, 2)),
        "broadcast_to_like: size 3 of axis 0 does not broadcast to 2",
        "operands: Tensor[(3), float32], Tensor[(3, 2), float32]",
    ),
    "concatenate": (
        f"def @main(%x: {MAT}, %y: Tensor[(?, ?), float32]) {{ tanh(concatenate((%x, %y), axis=0)) }}",
        (floats(3, 2), floats(1, 3)),
        "concatenate: axis 1 is 2 in tensor 0 and 3 in tensor 1",
        "operands: Tensor[(3, 2), float32], Tensor[(1, 3), float32]",
    ),
    "bias": (
        f"def @main(%x: {MAT}, %b: Tensor[(?), float32]) {{ nn.relu(nn.bias_add(%x, %b)) }}",
        (floats(3, 2), floats(3)),
        "nn.bias_add: axis 1 of the data has size 2, the bias 3 elements",
        "operands: Tensor[(3, 2), float32], Tensor[(3), float32]",
    ),
    "reshape": (
        f"def @main(%x: {MAT}) {{ reshape(%x, newshape=[-1, 4]) }}",
        (floats(3, 2),),
        "reshape: cannot view 6 elements as (-1, 4)",
        "operands: Tensor[(3, 2), float32]",
    ),
}


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize("case", CONTRADICTIONS)
@pytest.mark.parametrize("level", [0, 2])
def test_a_contradiction_says_which_input_which_axis_and_which_sizes(case: str, level: int, target: str) -> None:
    program, given, message, note = CONTRADICTIONS[case]
    vm = relay.VirtualMachine(compiled(target, program, opt_level=level))
    with pytest.raises(relay.VMError) as error:
        vm.run(*given)
    diagnostic = error.value.diagnostics[0]
    assert diagnostic.message == message
    assert note in [text for text, _ in diagnostic.notes]


SLICED = f"""def @main(%x: {MAT}, %b: Tensor[(2), int64], %e: Tensor[(2), int64], %s: Tensor[(2), int64]) {{
  let %d = tanh(multiply(exp(%x), 2f));
  let %p = dyn.strided_slice(%d, %b, %e, %s);
  negative(add(%p, 1f))
}}"""


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize(("fuse", "kernels"), [("on", 1), ("off", 6)])
def test_what_is_before_and_behind_a_slice_of_unknown_bounds_fuses_with_it(target: str, fuse: str, kernels: int) -> None:
    exe = compiled(target, SLICED, fuse=fuse)
    vm = relay.VirtualMachine(exe)
    x = floats(5, 6) / 30
    got = vm.run(x, np.array([1, 0]), np.array([4, 6]), np.array([2, 3]))
    assert vm.counters["launches"] == kernels
    # bounds and strides only, never the data
    assert vm.counters["dtoh_bytes"] == (0 if target == HOST else 3 * 2 * 8)
    np.testing.assert_allclose(got.numpy(), -(np.tanh(np.exp(x) * 2)[1:4:2, 0:6:3] + 1), rtol=1e-6)


@pytest.mark.parametrize("target", DEVICES)
def test_an_operator_is_closed_only_at_its_flagged_inputs(target: str) -> None:
    program = f"""def @main(%x: {MAT}, %b: Tensor[(2), int64], %e: Tensor[(2), int64]) {{
      dyn.strided_slice(exp(%x), add(%b, 1i64), %e, add(%b, 1i64))
    }}"""
    vm = relay.VirtualMachine(compiled(target, program))
    x = floats(4, 5) / 9
    got = vm.run(x, np.array([0, 1]), np.array([4, 5])).numpy()
    np.testing.assert_allclose(got, np.exp(x)[1:4:1, 2:5:2], rtol=1e-6)
    # the sum is computed before the slice, the exponentials with it
    assert vm.counters["launches"] == 2
