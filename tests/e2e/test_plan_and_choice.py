"""First the implementation, then the memory: in-place reuse only if every version of the call allows it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.expr import IRModule
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.lowering import plan_memory as planning
from relayvm.compiler.lowering.pipeline import passes, stages
from relayvm.compiler.settings.config import Config
from relayvm.compiler.text.parser import parse
from relayvm.ops.analysis.aliasing import Pair
from relayvm.ops.core.conditions import condition
from relayvm.ops.core.dtype_rules import like_inputs
from relayvm.ops.core.implementation import HOST, Kernel
from relayvm.ops.core.op import REGISTRY, Op, OpPattern
from relayvm.ops.native.memory import generic
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, register_shape_func
from relayvm.vm.options import CHECK_VARIABLE

from ..devices import DEVICES
from ..programs import HEADER

NAME = "test.turn"
LARGE = 100


@generic
def swapped(x: Any, out: Any) -> int:
    """The elements the other way round, two at a time: right in place."""
    n = x.shape[0]
    for i in range((n + 1) // 2):
        first, last = x[i], x[n - 1 - i]
        out[i] = last
        out[n - 1 - i] = first
    return 0


@generic
def copied(x: Any, out: Any) -> int:
    """The elements the other way round, one at a time: wrong in place."""
    n = x.shape[0]
    for i in range(n):
        out[i] = x[n - 1 - i]
    return 0


@pytest.fixture(autouse=True)
def operator() -> Iterator[None]:
    """An operator that is turned in place where it is large."""
    register_shape_func(NAME)(lambda inputs, attrs: inputs[0].shape)
    large = lambda call: (condition(call.inputs[0].shape[0], ">=", LARGE),)  # noqa: E731
    kernels = (Kernel("swap", swapped, pays=large, in_place=((0, 0),)), Kernel("copy", copied))
    op = Op(
        name=NAME, doc="Turned.", inputs=("data",), pattern=OpPattern.OPAQUE, dtype=like_inputs(NAME, ["data"], ["float32"]),
        kernels=kernels,
    )  # fmt: skip
    yield
    del REGISTRY[op.name], SHAPE_FUNCS[op.name]


def text(size: str) -> str:
    return f"{HEADER}def @main(%x: Tensor[({size}), float32]) {{ {NAME}({NAME}(exp(%x))) }}"


def over(size: str, target: str = HOST, **config: Any) -> list[str]:
    """The primitives that write in place, by name."""
    mod: IRModule = stages(parse(text(size)), Config.of(**config), target)["planned"]
    return sorted(name for name, f in mod.functions.items() if f.attrs.get("in_place") and "turn" in name)


def check(size: str, n: int, target: str, **config: Any) -> None:
    x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
    vm = relay.VirtualMachine(relay.compile(text(size), target=target, **config))
    np.testing.assert_allclose(vm.run(x).numpy(), np.exp(x), rtol=1e-5)


HOSTED = tuple(d for d in DEVICES if d != "cuda")


@pytest.mark.parametrize("target", HOSTED)
@pytest.mark.parametrize("size", ["?n", "7", "200"])
def test_a_forced_implementation_is_planned_for(size: str, target: str) -> None:
    for n in (7, 200) if size == "?n" else (int(size),):
        check(size, n, target, **{f"impl.{NAME}": "swap"})
        check(size, n, target, **{f"impl.{NAME}": "copy"})
    assert over(size, target, **{f"impl.{NAME}": "swap"}) == ["test_turn_over_p0"]
    assert over(size, target, **{f"impl.{NAME}": "copy"}) == []


@pytest.mark.parametrize("target", HOSTED)
def test_a_chosen_implementation_is_planned_for(target: str) -> None:
    assert over("200", target) == ["test_turn_over_p0"] and over("7", target) == []
    check("200", 200, target)
    check("7", 7, target)


@pytest.mark.parametrize("target", HOSTED)
def test_what_may_not_all_be_in_place_is_not(target: str) -> None:
    assert over("?n", target) == []
    for n in (0, 1, 7, LARGE - 1, LARGE, 200):
        check("?n", n, target)


def test_the_choice_comes_first() -> None:
    for level in (1, 2, 3):
        names = [name for name, _ in passes(Config(opt_level=level), LoweringContext(HOST))]
        assert names.index("select_implementations") < names.index("manifest_alloc") < names.index("plan_memory")


@pytest.mark.parametrize("size", ["?n", "7"])
def test_a_plan_made_before_the_choice_gives_wrong_results(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_the_first(group: Any, machine: str) -> tuple[Pair, ...]:
        return REGISTRY[NAME].kernels[0].in_place if group.nodes[0].op == NAME else ()

    monkeypatch.setattr(planning, "in_place_pairs", of_the_first)
    assert over(size) != []
    with pytest.raises(relay.ExecutableFormatError, match="its kernel does not write over parameters"):
        check(size, 7, HOST)
    monkeypatch.setenv(CHECK_VARIABLE, "0")
    with pytest.raises(AssertionError):
        check(size, 7, HOST)
