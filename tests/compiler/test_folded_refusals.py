"""Constants that the compiler makes and an operator then refuses: the program fails where it runs, if it runs there."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.native.status import SHAPE_CHECK

from ..programs import HEADER


@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize("opt_level", [0, 3])
def test_a_step_of_zero_in_a_branch_that_is_not_taken(opt_level: int, target: str) -> None:
    text = HEADER + "def @main(%b: bool, %x: float32) { if (%b) { arange(%x, %x, std(0f)) } else { arange(0f, 2f, 1f) } }"
    machine = relay.VirtualMachine(relay.compile(text, target, opt_level=opt_level))
    assert machine.run(False, np.float32(1)).shape == (2,)
    with pytest.raises(relay.VMError, match="arange: step is 0") as raised:
        machine.run(True, np.float32(1))
    assert raised.value.status == SHAPE_CHECK


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_more_elements_than_can_be_counted_beside_an_axis_of_zero(target: str) -> None:
    text = HEADER + f"def @main(%x: float32) {{ (ones(shape=[{2**63 - 1}, 0]), %x) }}"
    try:
        exe = relay.compile(text, target=target)
    except relay.TypeCheckError as error:
        assert error.diagnostics[0].span is not None
        return
    assert exe.functions


#: Programs of ``%b`` and ``%x``: a value whose sizes folding finds, and its use in a branch, which these sizes do not fit.
NARROWED = {
    "result of a kernel": "let %v = argwhere(1); if (%b) { split(%v, indices_or_sections=2).0 } else { argwhere(%x) }",
    "field of a tuple": (
        "let %v = argwhere(ones(shape=[2, 3])); let %t = (copy(%v), argwhere(%x));"
        "if (%b) { concatenate(%t, axis=1) } else { argwhere(%x) }"
    ),
    "branch taken": "let %v = if (True) { ones(shape=[2, 3]) } else { ones(shape=[3, 3]) }; if (%b) { add(%v, %x) } else { %x }",
}


@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize("opt_level", [0, 2, 3])
@pytest.mark.parametrize("name", NARROWED)
def test_sizes_that_folding_finds_and_a_use_refuses(name: str, opt_level: int, target: str) -> None:
    text = f"{HEADER}def @main(%b: bool, %x: Tensor[(3, 3), float32]) {{ {NARROWED[name]} }}"
    machine = relay.VirtualMachine(relay.compile(text, target, opt_level=opt_level))
    x = np.ones((3, 3), "float32")
    assert machine.run(False, x).shape[0] in (3, 9)
    with pytest.raises(relay.VMError) as raised:
        machine.run(True, x)
    assert raised.value.status == SHAPE_CHECK
