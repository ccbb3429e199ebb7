"""``Defunctionalization``: programs without functions as values, with the same results; random programs too."""

from __future__ import annotations

import random

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order

from ... import tiers
from ...campaign.adts import NO_MATCH, arguments, difference, plain, text_of
from ...campaign.functional_programs.growth import Growth
from .test_continuation_passing import HEADER, LISTS, PROGRAMS

transform = relay.transform


def first_order(mod: relay.IRModule) -> relay.IRModule:
    """The module without functions as values; checked to be one."""
    new = relay.IRModule(mod.functions, type_definitions=mod.type_definitions)
    assert transform.Defunctionalization(new["main"], new) is new["main"]
    assert relay.structural_equal(relay.parse(new.astext()), new) and relay.analysis.well_formed(new)
    for node in post_order(*new.functions.values()):
        called = node.op if isinstance(node, relay.Call) else None
        assert called is None or isinstance(called, (relay.op.Op, relay.GlobalVar, relay.Constructor)), node
        assert not isinstance(node, relay.Function) or node in new.functions.values()
    assert "fn (" not in new.astext()
    return new


def results(mod: relay.IRModule, args: list[object]) -> object:
    try:
        return plain(relay.create_executor("debug", mod).evaluate()(*args))
    except relay.VMError as error:
        assert NO_MATCH in str(error)
        return NO_MATCH


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_results_are_the_same(name: str) -> None:
    mod = relay.parse(HEADER + PROGRAMS[name])
    new = first_order(mod)
    for number in (0, 4, 6):
        assert results(new, [np.int32(number)]) == results(mod, [np.int32(number)])


@pytest.mark.drawn
def test_random_programs() -> None:
    with_functions = 0
    for seed in tiers.draws(300):
        program = Growth(random.Random(seed)).program()
        mod, args = relay.parse(text_of(program)), arguments(program)
        new = first_order(mod)
        want, got = results(mod, args), results(new, args)
        assert (want == got) if NO_MATCH in (want, got) else difference(want, got) is None, seed
        with_functions += "Function" in new.type_definitions
    assert with_functions > len(tiers.draws(300)) // 3


def test_the_text() -> None:
    mod = relay.parse(
        HEADER
        + """
        def @main(%n: int32) { let %f = if (%n < 3) { fn (%x: int32) { %x * %n } } else { @next }; %f(2) }
        def @next(%x: int32) { %x + 1 }"""
    )
    new = first_order(mod)
    assert (
        new.astext().partition("\n")[2]
        == """\
type Function {
  Closure_main_fn(int32),
  Closure_next,
}
def @main(%n: int32) {
  let %less = less(%n, 3);
  let %f = if (%less) {
    let %fn = Closure_main_fn(%n);
    %fn
  } else {
    let %next_closure = Closure_next;
    %next_closure
  };
  let %f1: int32 = @apply_function(%f, 2);
  %f1
}
def @next(%x: int32) {
  let %add = add(%x, 1);
  %add
}
def @main_fn(%n: int32, %x: int32) {
  let %multiply = multiply(%x, %n);
  %multiply
}
def @apply_function(%f: Function, %x0: int32) -> int32 {
  match (%f) {
    Closure_main_fn(%c0) => {
      @main_fn(%c0, %x0)
    },
    Closure_next => {
      @next(%x0)
    },
  }
}
"""
    )


def test_the_machine_runs_functions_of_tensors_of_several_sizes() -> None:
    mod = relay.parse(
        HEADER
        + LISTS
        + """
        type Held { Keep(fn(Tensor[(?), int32]) -> Tensor[(?), int32]) }
        def @use(%h: Held, %x: Tensor[(?), int32]) { match (%h) { Keep(%f) => %f(%x) } }
        def @main(%x: Tensor[(?n), int32], %y: Tensor[(3), int32]) {
          let %add = fn (%a: Tensor[(3), int32]) { %a + %y };
          let %twice = fn (%a: Tensor[(?k), int32]) { concatenate((%a, %a)) };
          (%add(%y), @use(Keep(%twice), %x), @map(%add, Cons(%y, Nil))) }"""
    )
    new = first_order(mod)
    args = [np.array([1, 2], "int32"), np.array([4, 5, 6], "int32")]
    for target in ("cpu", "sim"):
        with relay.VirtualMachine(relay.compile(new, target=target)) as vm:
            assert difference(results(mod, args), plain(vm.run(*args))) is None
    assert difference(results(mod, args), results(new, args)) is None


@pytest.mark.parametrize(
    ("fails", "text"),
    [
        (lambda mod: transform.Defunctionalization(3, mod), "Defunctionalization: the function must be a relay.Function"),
        (lambda mod: transform.Defunctionalization(mod["main"], 3), "Defunctionalization: the module must be an IRModule"),
        (lambda mod: transform.Defunctionalization(mod["takes"], mod), "@takes has a function as parameter or result"),
        (lambda mod: transform.Defunctionalization(mod["main"], mod), "has a field of type fn (A) -> A, whose type parameter"),
    ],
)
def test_wrong_uses(fails, text: str) -> None:
    mod = relay.parse(
        HEADER
        + """type F[A] { Held(fn(A) -> A) }
        def @takes(%f: F[int32]) { 1 }
        def @main(%n: int32) { @takes(Held(fn (%x: int32) { %x })) }"""
    )
    with pytest.raises(relay.RelayError) as error:
        fails(mod)
    assert text in str(error.value)
