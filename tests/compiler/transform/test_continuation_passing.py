"""``ToCPS``, ``to_cps``, ``un_cps``: with the identity as continuation, a program gives its results."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay

transform = relay.transform
HEADER = '#[version = "0.0.5"]\n'
LISTS = """
type L[A] { Cons(A, L[A]), Nil }
def @map[A, B](%f: fn(A) -> B, %l: L[A]) -> L[B] {
  match (%l) { Cons(%h, %t) => Cons(%f(%h), @map(%f, %t)), Nil => Nil }
}
def @sum(%l: L[int32]) -> int32 { match (%l) { Cons(%h, %t) => %h + @sum(%t), Nil => 0 } }
def @next(%x: int32) { %x + 1 }
"""
PROGRAMS = {
    "operators": "def @main(%n: int32) { let %m = %n * 2; (%m, %m + 1) }",
    "calls": "def @f(%x: int32) { %x * 3 }\ndef @main(%n: int32) { let %y = @f(%n) + @f(@f(%n)); %y - 1 }",
    "branches": "def @main(%n: int32) { let %y = if (%n < 3) { %n * 5 } else { if (%n < 5) { 7 } else { %n } }; %y + 1 }",
    "recursion": "def @f(%n: int32) -> int32 { if (%n < 2) { 1 } else { %n * @f(%n - 1) } }\ndef @main(%n: int32) { @f(%n) }",
    "closures": """def @twice(%f: fn(int32) -> int32, %x: int32) { %f(%f(%x)) }
        def @main(%n: int32) { let %g = fn (%x: int32) { if (%x < 5) { %x + %n } else { %x } }; @twice(%g, 1) }""",
    "local recursion": """def @main(%n: int32) {
        let %f = fn (%k: int32) -> int32 { if (%k < 1) { 0 } else { %k + %f(%k - 1) } }; %f(%n) }""",
    "references": """def @add(%r: ref(int32), %x: int32) { ref_write(%r, ref_read(%r) + %x) }
        def @main(%n: int32) { let %r = ref(%n); @add(%r, 2); let %y = ref_read(%r); @add(%r, %y); ref_read(%r) }""",
    "lists": LISTS + "def @main(%n: int32) { @sum(@map(@next, @map(fn (%x: int32) { %x * %n }, Cons(1, Cons(2, Nil))))) + 1 }",
    "patterns": LISTS + """def @main(%n: int32) {
        match ((@map(@next, Cons(%n, Nil)), %n)) { (Cons(%h, Nil), %m) => @next(%h) * %m, _ => 0 } }""",
}  # fmt: skip


def evaluated(mod: relay.IRModule, number: int):
    result = relay.create_executor("debug", mod).evaluate()(np.int32(number))
    return [field.tolist() for field in result] if isinstance(result, tuple) else result.tolist()


def round_trip(mod: relay.IRModule) -> None:
    assert relay.structural_equal(relay.parse(mod.astext()), mod) and relay.analysis.well_formed(mod)


@pytest.mark.parametrize("name", PROGRAMS)
def test_with_the_identity_the_results_are_the_same(name: str) -> None:
    mod = relay.parse(HEADER + PROGRAMS[name])
    new = transform.ToCPS()(mod)
    round_trip(new)
    assert list(new.functions) == list(mod.functions)
    assert all(f.params[-1].name_hint == "k" and str(f.ret_type) == "Answer" for f in new.functions.values())
    new["main"] = transform.un_cps(new["main"])
    round_trip(new)
    typed = transform.InferType()(mod)["main"].ty
    assert str(transform.InferType()(new)["main"].ty) == str(typed)
    for number in (0, 4, 6):
        assert evaluated(new, number) == evaluated(mod, number)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_function(name: str) -> None:
    mod = relay.parse(HEADER + PROGRAMS[name])
    whole = relay.parse(HEADER + PROGRAMS[name])
    whole["main"] = transform.un_cps(transform.to_cps(whole["main"], whole))
    assert {n for n in whole.functions if n not in mod.functions} <= {f"{n}_cps" for n in mod.functions}
    assert evaluated(whole, 4) == evaluated(mod, 4)


def test_the_text() -> None:
    mod = relay.parse(HEADER + "def @f(%x: int32) { %x }\ndef @main(%n: int32) { if (%n < 1) { 2 } else { @f(%n) + 1 } }")
    assert transform.ToCPS()(mod)["main"].astext().partition("\n")[2] == (
        "fn [Answer](%n: int32, %k: fn (int32) -> Answer) -> Answer {\n"
        "  let %less = less(%n, 1);\n"
        "  if (%less) {\n"
        "    %k(2)\n"
        "  } else {\n"
        "    %0 = fn (%f) {\n"
        "      let %add = add(%f, 1);\n"
        "      %k(%add)\n"
        "    };\n"
        "    @f(%n, %0)\n"
        "  }\n"
        "}\n"
    )


def test_the_machine_runs_it() -> None:
    mod = relay.parse(HEADER + PROGRAMS["lists"])
    new = transform.ToCPS()(mod)
    new["main"] = transform.un_cps(new["main"])
    with relay.VirtualMachine(relay.compile(new)) as vm:
        assert vm.run(np.int32(5)).tolist() == evaluated(mod, 5) == 18


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda: transform.to_cps(3), "to_cps: the function must be a relay.Function, not the int 3"),
        (lambda: transform.to_cps(relay.Function([], 1), 3), "to_cps: the module must be an IRModule, not the int 3"),
        (lambda: transform.un_cps(relay.Function([], 1)), "un_cps: the function must be a relay.Function with a continuation"),
        (
            lambda: transform.ToCPS()(relay.parse(HEADER + "def @id[A](%x: A) { %x }\ndef @main(%n: int32) { %n }")),
            "ToCPS: the polymorphic function @id has no result type",
        ),
        (
            lambda: transform.ToCPS()(relay.parse(HEADER + "type F { Held(fn(int32) -> int32) }\ndef @main(%n: int32) { %n }")),
            "ToCPS: the constructor Held has a function as field, whose answer has no type",
        ),
    ],
)
def test_wrong_uses(fails, text: str) -> None:
    with pytest.raises(relay.RelayError) as error:
        fails()
    assert text in str(error.value)


def test_a_function_without_a_result_type_as_an_argument() -> None:
    mod = relay.parse(HEADER + LISTS + "def @main(%n: int32) { @map(@next, Cons(%n, Nil)) }")
    assert str(transform.InferType()(mod)["main"].ty) == "fn (int32) -> L[int32]"
