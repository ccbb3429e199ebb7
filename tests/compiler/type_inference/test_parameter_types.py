"""Types of parameters without an annotation."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.type_inference.function_signature import Signature
from relayvm.compiler.type_inference.typing_rules import FunctionTyper

from ...programs import HEADER, machine

X = "%x: Tensor[(?, 4), float32]"


def typed(text: str) -> relay.IRModule:
    """The typed module, whose text parses back to an equal module."""
    mod = infer_type(to_a_normal_form(relay.parse(HEADER + text)))
    check(mod, "infer_type", typed=True)
    assert relay.structural_equal(relay.parse(relay.astext(mod)), mod)
    return mod


def annotations(text: str, function: str = "main") -> str:
    """The annotations of a function's parameters."""
    return ", ".join(str(p.annotation) for p in typed(text)[function].params)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"def @main({X}, %w) {{ nn.dense(%x, %w, units=3) }}", "Tensor[(?, 4), float32], Tensor[(3, 4), float32]"),
        # a named size stays named, any other size is unknown
        (
            "def @main(%x: Tensor[(?n, ?c), float32], %w) { nn.dense(%x, %w, units=3) }",
            "Tensor[(?n, ?c), float32], Tensor[(3, ?c), float32]",
        ),
        (
            "def @main(%x: Tensor[(?n, ?), float16], %w) { nn.dense(%x, %w, units=3) }",
            "Tensor[(?n, ?), float16], Tensor[(3, ?), float16]",
        ),
        (
            "def @main(%x: Tensor[(?n, ?c), float32], %w) { nn.dense(concatenate((%x, %x), axis=1), %w, units=3) }",
            "Tensor[(?n, ?c), float32], Tensor[(3, ?), float32]",
        ),
        # each layer gives the type of the next
        (
            "def @main(%x: Tensor[(?, 3, 8, 8), float32], %w, %b, %g, %s, %m, %v, %d) { "
            "let %c = nn.bias_add(nn.conv2d(%x, %w, channels=16, kernel_size=[3, 3]), %b); "
            "nn.dense(nn.batch_flatten(nn.batch_norm(%c, %g, %s, %m, %v).0), %d, units=2) }",
            "Tensor[(?, 3, 8, 8), float32], Tensor[(16, 3, 3, 3), float32], "
            + "Tensor[(16), float32], " * 5
            + "Tensor[(2, 576), float32]",
        ),
        # a use before the use that determines the type
        (
            f"def @main({X}, %w) {{ let %y = exp(%w); (%y, nn.dense(%x, %w, units=3)) }}",
            "Tensor[(?, 4), float32], Tensor[(3, 4), float32]",
        ),
        # a use inside a branch, a function and a tuple
        (
            f"def @main({X}, %c: bool, %w) {{ if (%c) {{ nn.dense(%x, %w, units=4) }} else {{ %x }} }}",
            "Tensor[(?, 4), float32], bool, Tensor[(4, 4), float32]",
        ),
        (
            f"def @main({X}, %w) {{ let %f = fn (%y: Tensor[(?k, 4), float32]) {{ nn.dense(%y, %w, units=2) }}; %f(%x) }}",
            "Tensor[(?, 4), float32], Tensor[(2, 4), float32]",
        ),
        # annotations of a let, a result, the other branch
        ("def @main(%x) { let %y: Tensor[(?m, 2), int8] = %x; %y }", "Tensor[(?, 2), int8]"),
        ("def @main(%x) -> Tensor[(2), int8] { %x }", "Tensor[(2), int8]"),
        ("def @main(%x) -> (int8, Tensor[(2), int8]) { %x }", "(int8, Tensor[(2), int8])"),
        ("def @main(%c, %x, %y: int8) { if (%c) { %x } else { %y } }", "bool, int8, int8"),
        ("def @main(%c: bool, %x, %y: int8) { if (%c) { %y } else { %x } }", "bool, int8, int8"),
        # a parameter that is passed on
        (
            "def @main(%n: Tensor[(?n, 2), int8], %x) { @f(%n, %x) } "
            "def @f(%a: Tensor[(?k, 2), int8], %b: Tensor[(?k, ?l), int8]) { (%a, %b) }",
            "Tensor[(?n, 2), int8], Tensor[(?n, ?), int8]",
        ),
        (
            "def @main(%f) { @twice(%f, 1f) } def @twice(%f: fn (float32) -> float32, %x: float32) { %f(%f(%x)) }",
            "fn (float32) -> float32",
        ),
        ("def @main(%x) { let %f = fn (%y: int8) { %y }; %f(%x) }", "int8"),
        # through two functions, whose own parameters have no types
        (f"def @main({X}, %w) {{ @f(%x, %w) }} def @f(%a, %b) {{ @g(%a, %b) }} def @g(%c, %d) {{ nn.dense(%c, %d, units=5) }}",
         "Tensor[(?, 4), float32], Tensor[(5, 4), float32]"),
    ],
)  # fmt: skip
def test_annotations_of_main(text: str, found: str) -> None:
    assert annotations(text) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def @main(%x: Tensor[(?n, 4), float32]) { @f(%x) } def @f(%a) { exp(%a) }", "Tensor[(?, 4), float32]"),
        # sizes in which the calls differ are unknown
        (
            "def @main(%x: Tensor[(3, 4), int8], %y: Tensor[(5, 4), int8]) { (@f(%x), @f(%y)) } def @f(%a) { abs(%a) }",
            "Tensor[(?, 4), int8]",
        ),
        # a use decides before the calls
        (f"def @main({X}, %w: Tensor[(7, 4), float32]) {{ @f(%x, %w) }} def @f(%a, %b) {{ nn.dense(%a, %b, units=7) }}",
         "Tensor[(?, 4), float32], Tensor[(7, 4), float32]"),
        # recursion: the calls from outside give the types
        (
            f"def @main({X}, %w) {{ @f(%x, %w, 0) }} "
            "def @f(%a, %w, %i) { if (%i < 3) { @f(nn.dense(%a, %w, units=4), %w, %i + 1) } else { %a } }",
            "Tensor[(?, 4), float32], Tensor[(4, 4), float32], int32",
        ),
        ("def @main(%x: int8) { @f(%x) } def @f(%a) { @g(%a) } def @g(%b) -> int8 { @f(%b) }", "int8"),
        # the result of a recursive function becomes known late, and another parameter depends on it
        (
            f"def @main({X}, %w) {{ @f(@r(%x, 0), %w) }} def @f(%a, %b) {{ nn.dense(%a, %b, units=2) }} "
            "def @r(%x: Tensor[(?, 4), float32], %i: int32) { if (%i < 3) { @r(@g(%x), %i + 1) } else { @g(%x) } } "
            "def @g(%y) { @h(%y) } def @h(%z) { exp(%z) }",
            "Tensor[(?, 4), float32], Tensor[(2, 4), float32]",
        ),
        # a function that is passed
        ("def @main(%x: int8) { @do(@f, %x) } def @f(%a) { %a } def @do(%f: fn (int8) -> int8, %x: int8) { %f(%x) }", "int8"),
    ],
)  # fmt: skip
def test_annotations_of_a_called_function(text: str, found: str) -> None:
    assert annotations(text, "f") == found


@pytest.mark.parametrize(
    "text",
    [
        f"def @main({X}) {{ let %f = fn (%a) {{ exp(%a) }}; %f(%f(%x)) }}",
        f"def @main({X}) {{ fn (%a) {{ exp(%a) }}(%x) }}",
        f"def @main({X}) {{ let %f = fn (%a) {{ let %g = fn (%b) {{ exp(%b) }}; %g(%a) }}; %f(%x) }}",
        f"def @main({X}) {{ @do(fn (%a) {{ exp(%a) }}, %x) }} "
        "def @do(%f: fn (Tensor[(?k, 4), float32]) -> Tensor[(?k, 4), float32], %x: Tensor[(?, 4), float32]) { %f(%x) }",
    ],
)
def test_inner_functions(text: str) -> None:
    mod = typed(text)
    assert relay.astext(mod).count("%a: Tensor[(?, 4), float32]") == 1
    assert str(mod["main"].body.ty) == "Tensor[(?, 4), float32]"


def test_parameters_of_the_entry_have_no_types_from_calls() -> None:
    """A program may call the entry with anything, whatever the calls in the module give."""
    with pytest.raises(relay.TypeCheckError, match="parameter %x of @main has no type"):
        typed("def @main(%x) { @main(1) }")


def test_a_module_with_annotations_is_typed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from relayvm.compiler.type_inference import parameter_types

    monkeypatch.delattr(parameter_types, "_Inference")
    typed("def @main(%x: int8) { let %f = fn (%y: int8) { %y }; %f(%x) }")
    with pytest.raises(NameError):
        typed("def @main(%x: int8) { let %f = fn (%y) { %y }; %f(%x) }")


def test_constants_of_compile_give_types_and_unknown_sizes_are_checked_at_run_time() -> None:
    text = "def @main(%x: Tensor[(?, ?), float32], %w) { nn.dense(%x, %w, units=2) }"
    w = np.arange(6, dtype="float32").reshape(2, 3)
    x = np.ones((4, 3), "float32")
    bound = relay.VirtualMachine(relay.compile(HEADER + text, params={"w": w}))
    np.testing.assert_array_equal(bound.run(x).numpy(), x @ w.T)
    free = machine(text)
    np.testing.assert_array_equal(free.run(x, w).numpy(), x @ w.T)
    with pytest.raises(relay.VMError, match="the inner sizes of the product differ: 3 and 5"):
        free.run(x, np.ones((2, 5), "float32"))


def test_a_long_chain_of_functions_is_typed_in_linear_time() -> None:
    """Each function is typed when a type of its own, of a callee or of an argument has changed."""
    depth, typings = 60, 0

    def count(self: FunctionTyper, function: relay.Function, signature: Signature) -> relay.Function:
        nonlocal typings
        typings += 1
        return whole(self, function, signature)

    whole = FunctionTyper.function
    calls = "".join(f"def @f{k}(%x, %w) {{ @f{k + 1}(%x, %w) }} " for k in range(depth))
    text = f"def @main({X}, %w) {{ @f0(%x, %w) }} {calls} def @f{depth}(%x, %w) {{ nn.dense(%x, %w, units=3) }}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FunctionTyper, "function", count)
        assert annotations(text) == "Tensor[(?, 4), float32], Tensor[(3, 4), float32]"
    assert typings < 12 * depth


def test_weights_of_the_builder() -> None:
    x = relay.var("x", shape=(relay.Any(), 4))
    y = relay.nn.dense(x, relay.var("w1"), units=8)
    y = relay.nn.dense(relay.nn.relu(relay.nn.bias_add(y, relay.var("b1"))), relay.var("w2"), units=2)
    mod = relay.transform.InferType()(relay.IRModule.from_expr(y))
    assert [str(p.annotation) for p in mod["main"].params] == [
        "Tensor[(?, 4), float32]", "Tensor[(8, 4), float32]", "Tensor[(8), float32]", "Tensor[(2, 8), float32]"
    ]  # fmt: skip
