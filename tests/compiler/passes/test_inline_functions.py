"""Inlined calls: effects happen where the call stood, sizes are checked as before, and the module grows within its bound."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, IRModule
from relayvm.compiler.passes import inline_functions as file
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.inline_functions import MOST_ADDED, SMALL, inline_functions
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ...programs import HEADER

VECTOR = "Tensor[(?n), float32]"


def inlined(text: str) -> IRModule:
    return inline_functions(infer_type(to_a_normal_form(relay.parse(HEADER + text))))


def calls(mod: IRModule) -> list[str]:
    """The names of the functions and operators that @main calls."""
    return [value.op.name for value in values(mod["main"].body) if isinstance(value, Call)]


def chain(name: str, length: int, by: str = "exp") -> str:
    """A function of ``length`` bindings."""
    return f"def @{name}(%x: {VECTOR}) -> {VECTOR} {{ {f'{by}(' * length}%x{')' * length} }}\n"


def test_a_failure_in_one_branch_stays_in_this_branch() -> None:
    """The failure has no argument: as one value of both copies it would be evaluated before the branch is known."""
    text = (
        HEADER
        + """
type List { Nil, Cons(float32, List) }
def @first(%l: List) -> float32 { match? (%l) { Cons(%x, _) => %x } }
def @main(%x: float32) {
  let %one = Cons(%x, Nil);
  if (less(%x, 0f)) { @first(Nil) } else { add(@first(%one), @first(Cons(2f, %one))) }
}"""
    )
    machine = relay.VirtualMachine(relay.compile(text))
    assert machine.run(np.float32(3)).numpy() == 5
    with pytest.raises(relay.VMError, match="no case matches"):
        machine.run(np.float32(-1))


def test_a_module_grows_within_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    large = chain("f", SMALL + 1)
    main = f"def @main(%x: {VECTOR}) {{ (@f(%x), @f(exp(%x))) }}"
    monkeypatch.setattr(file, "MOST_ADDED", 2 * (SMALL + 1))
    assert "f" not in calls(inlined(large + main))
    monkeypatch.setattr(file, "MOST_ADDED", 2 * (SMALL + 1) - 1)
    assert calls(inlined(large + main)).count("f") == 2
    assert "f" not in calls(inlined(chain("f", SMALL) + main))


@pytest.mark.lengthy
def test_functions_that_double_each_other_stay_within_the_bound() -> None:
    """Each function calls the next one twice: all bodies in one would be 2 ** 30 bindings."""
    text = "".join(f"def @f{i}(%x: {VECTOR}) -> {VECTOR} {{ add(@f{i + 1}(%x), @f{i + 1}(tanh(%x))) }}\n" for i in range(30))
    mod = inlined(f"{text}{chain('f30', 1)}def @main(%x: {VECTOR}) {{ @f0(%x) }}")
    assert sum(len(list(values(f.body))) for f in mod.functions.values()) <= 2 * MOST_ADDED


def test_every_function_is_an_entry_still() -> None:
    text = f"{HEADER}{chain('f', 3)}def @main(%x: {VECTOR}) {{ @f(negative(%x)) }}"
    machine = relay.VirtualMachine(relay.compile(text))
    x = np.float32([0, 1, -1])
    np.testing.assert_allclose(machine.invoke("f", x).numpy(), np.exp(np.exp(np.exp(x))), rtol=1e-5)
    np.testing.assert_allclose(machine.run(x).numpy(), np.exp(np.exp(np.exp(-x))), rtol=1e-5)


def test_a_weight_of_a_caller_is_packed() -> None:
    """One function, called with two weights: each is a constant where it is used."""
    text = f"""{HEADER}
def @layer(%x: Tensor[(?n, 256), float32], %w: Tensor[(256, 256), float32]) -> Tensor[(?n, 256), float32] {{
  tanh(nn.dense(%x, %w))
}}
def @main(%x: Tensor[(?n, 256), float32], %a: Tensor[(256, 256), float32], %b: Tensor[(256, 256), float32]) {{
  @layer(@layer(%x, %a), %b)
}}"""
    a, b = np.random.default_rng(0).standard_normal((2, 256, 256)).astype("float32") / 16
    exe = relay.compile(text, params={"a": a, "b": b})
    machine = relay.VirtualMachine(exe)
    for rows in (0, 1, 5):
        x = np.linspace(-1, 1, rows * 256, dtype="float32").reshape(rows, 256)
        np.testing.assert_allclose(machine.run(x).numpy(), np.tanh(np.tanh(x @ a.T) @ b.T), rtol=1e-4, atol=1e-5)
    assert sum(node.op == "nn.dense_panels" for packed in exe.packed for node in packed.group.nodes) == 1
    assert [c.ndim for c in exe.constants] == [3, 3]
