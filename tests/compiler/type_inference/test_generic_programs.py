"""Generic functions keep their type variables: properties of random programs."""

from __future__ import annotations

import random
from typing import Any

import pytest

import relayvm as relay
from relayvm.compiler.ir.visitor import post_order
from relayvm.compiler.passes.infer_type import variable_types
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.polymorphism.monomorphize import copies_to_read
from relayvm.compiler.transform.typed_form import typed_form
from relayvm.ops.core.adt_types import TypeVar, substitute_types
from relayvm.ops.core.tensor_types import Type

from ...tiers import examples
from .generic_programs import FLOAT, HEADER, INT, SCALARS, Programs, Term, Ty, text_of

INPUTS = {"x": FLOAT, "i": INT, "l": ("list", FLOAT)}
#: Programs in a module: functions are shared, and results are the fields of one tuple.
BATCH = 10


def drawn(seed: int) -> tuple[relay.IRModule, list[tuple[Ty, Term]]]:
    """A module with ``BATCH`` programs, the functions ``main0``, ``main1`` ..., and the type and value of each."""
    programs = Programs(random.Random(seed))
    text, mains = HEADER, []
    for k in range(BATCH):
        text += programs.generic().text(annotated=programs.random.random() < 0.5)
        result = programs.type(SCALARS)
        mains.append((result, programs.term(result, INPUTS, 4)))
        text += f"def @main{k}(%x: float32, %i: int32, %l: List[float32]) {{ {mains[-1][1].text} }}\n"
    calls = ", ".join(f"@main{k}(2f, 1, %l)" for k in range(BATCH))
    text += f"def @main() {{ let %l: List[float32] = Cons(3f, Cons(1f, @nil[float32]())); ({calls}) }}\n"
    return relay.parse(text), mains


def is_concrete(ty: Type) -> bool:
    return not any(isinstance(t, TypeVar) for t in relay.analysis.all_type_vars(relay.Var("v", ty)))


def instances(mod: relay.IRModule) -> list[dict[str, tuple[Type, ...]]]:
    """The types that a typed module calls its generic functions with: in rounds, one instance of a function in each."""
    calls = [n for n in post_order(*mod.functions.values()) if isinstance(n, relay.Call) and n.type_args]
    rounds: list[dict[str, tuple[Type, ...]]] = []
    for name, types in {(call.op.name_hint, call.type_args): None for call in calls if all(map(is_concrete, call.type_args))}:
        free = [each for each in rounds if name not in each]
        (free[0] if free else rounds.append({}) or rounds[-1])[name] = types
    return rounds


def variables_of(function: relay.Function) -> list[Any]:
    """The variables that a function binds by parameters and lets."""
    return [*function.params, *(node.var for node in post_order(function) if isinstance(node, relay.Let))]


def as_python(value: Any, ty: Ty) -> Any:
    """A result as ``Term.value`` gives it."""
    if isinstance(ty, str):
        return value.numpy().item()
    if ty[0] == "tuple":
        return tuple(as_python(v, t) for v, t in zip(value, ty[1:], strict=True))
    items = []
    while len(value):
        items.append(as_python(value[0], ty[1]))
        value = value[1]
    return items


def check_types(batch: int) -> None:
    """The law for the programs of a batch: the types over variables, at the types of an instance, are those of the instance."""
    mod, mains = drawn(batch)
    typed = relay.transform.InferType()(mod)
    assert all(node.ty is not None for node in post_order(*typed.functions.values()))
    for k, (ty, _) in enumerate(mains):
        assert str(typed[f"main{k}"].ret_type) == text_of(ty)
    # the text has the types, which change nothing
    again = relay.parse(typed.astext())
    assert relay.structural_equal(again, typed) and relay.structural_equal(relay.transform.InferType()(again), typed)

    normal = to_a_normal_form(mod)
    over_variables = typed_form(normal)
    for wanted in instances(typed):
        copies = copies_to_read(normal, wanted)
        _, variables = variable_types(copies.module)
        for name, types in wanted.items():
            mapping = dict(zip(mod[name].type_params, types, strict=True))
            for generic, var in zip(variables_of(over_variables[name]), variables_of(normal[name]), strict=True):
                assert str(substitute_types(generic.ty, mapping)) == str(variables[copies.atoms[var]].ty), (name, var.name)


@pytest.mark.split(2)
@pytest.mark.parametrize("batch", range(5))
def test_types_over_variables_are_those_of_every_instance(batch: int) -> None:
    check_types(batch)


@pytest.mark.extensive
def test_types_of_many_programs() -> None:
    for batch in range(5, 5 + examples(95, is_extensive=True)):
        check_types(batch)


@pytest.mark.parametrize("batch", range(2))
def test_results_are_those_of_python(batch: int) -> None:
    mod, mains = drawn(batch)
    inputs = {"x": 2, "i": 1, "l": [3, 1]}
    want = [term.value(inputs) for _, term in mains]
    for kind, each in (("debug", mod), ("vm", relay.transform.InferType()(mod)), ("debug", relay.transform.FoldConstant()(mod))):
        results = relay.create_executor(kind, each, device="cpu", target="cpu").evaluate()()
        assert [as_python(v, ty) for v, (ty, _) in zip(results, mains, strict=True)] == want
