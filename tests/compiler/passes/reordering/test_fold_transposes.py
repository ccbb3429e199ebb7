"""Products with transposed matrices: the same results, and programs that stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.reordering.fold_transposes import fold_transposes
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ....programs import HEADER

FOUR = "reshape(transpose(%b, axes=[0, 1, 3, 2]), newshape=[-3, -2])"
#: The matrices, the shape of ``%b``, whether the product transposes them itself, and whether the transpose is folded.
CASES = {
    "rank 3": ("transpose(%b, axes=[0, 2, 1])", "(?g, ?n, 5)", False, True),
    "negative axes": ("transpose(%b, axes=[0, -1, -2])", "(?g, ?n, 5)", False, True),
    "transposed twice": ("transpose(%b, axes=[0, 2, 1])", "(?g, 5, ?n)", True, True),
    "rank 4": (FOUR, "(3, ?h, ?n, 5)", False, True),
    "other axes": ("transpose(%b, axes=[1, 2, 0])", "(?n, ?g, 5)", False, False),
    "matrices of other sizes": ("reshape(transpose(%b, axes=[0, 2, 1]), newshape=[-1, 5, 2])", "(?g, 4, 5)", False, False),
    "plain": ("%b", "(?g, 5, ?n)", False, False),
}


def program(case: str, dtype: str = "float32") -> str:
    matrices, shape, transposes, _ = CASES[case]
    params = f"%a: Tensor[(?, ?m, 5), {dtype}], %b: Tensor[{shape}, {dtype}]"
    return f"{HEADER}def @main({params}) {{ nn.batch_matmul(%a, {matrices}, transpose_b={transposes}) }}"


def operators(text: str, forced: tuple[str, ...] = ()) -> set[str]:
    """The operators of a program after the pass, but those whose values are dead."""
    mod = fold_transposes(infer_type(to_a_normal_form(relay.parse(text))), forced)
    found = relay.transform.DeadCodeElimination()(mod)
    return {value.op.name for value in values(found["main"].body) if isinstance(value, Call)}


@pytest.mark.parametrize("case", CASES)
def test_transposes_are_folded(case: str) -> None:
    *_, is_folded = CASES[case]
    found = operators(program(case))
    assert ("transpose" not in found) == (is_folded or case == "plain"), found
    assert operators(program(case), ("transpose",)) >= ({"transpose"} if case != "plain" else set())


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("case", ["rank 3", "rank 4"])
def test_results_are_those_of_numpy(case: str, dtype: str) -> None:
    machine, rng = relay.VirtualMachine(relay.compile(relay.parse(program(case, dtype)))), np.random.default_rng(3)
    for groups, m, n in ((6, 1, 9), (3, 4, 1), (3, 40, 35), (0, 2, 2), (3, 0, 2), (3, 2, 0)):
        shape = (groups, n, 5) if case == "rank 3" else (3, groups // 3, n, 5)
        a, b = ((rng.standard_normal(s) * 9).astype(dtype) for s in ((groups, m, 5), shape))
        wanted = a @ b.reshape(groups, n, 5).transpose(0, 2, 1)
        np.testing.assert_allclose(machine.run(a, b).numpy(), wanted, rtol=1e-5, atol=1e-4)


def test_a_transpose_with_another_use_stays() -> None:
    text = f"{HEADER}def @main(%a: Tensor[(2, ?m, 5), float32], %b: Tensor[(2, ?n, 5), float32]) {{ "
    text += "let %t = transpose(%b, axes=[0, 2, 1]); (nn.batch_matmul(%a, %t, transpose_b=False), %t) }"
    assert "transpose" in operators(text)
