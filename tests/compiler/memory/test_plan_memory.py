"""plan_memory: no read of dead bytes, results as without a plan, and memory is reused where possible."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.expr import Call, If, IRModule, Let
from relayvm.compiler.memory import arena, in_place_reuse, liveness, slots
from relayvm.compiler.text.parser import parse
from relayvm.ops.defs.machine import machine_ops
from relayvm.vm.options import CHECK_VARIABLE, POISON_VARIABLE

from ...programs import HEADER
from .memory_programs import COLUMNS, KINDS, ROWS, memory_programs
from .overlaps import dead_reads
from .planned import planned

#: The number of random programs; so few take seconds.
PROGRAMS = int(os.environ.get("RELAYVM_MEMORY_PROGRAMS", "40"))


def planned_unfused(text: str, target: str = "cpu", **config: Any) -> IRModule:
    """The program after ``plan_memory``; each operator is a kernel of its own."""
    return planned(text, target, fuse="off", **config)


def storages(mod: IRModule, name: str = "main") -> list[Call]:
    """The allocations of a function, in order."""
    found, pending = [], [mod[name].body]
    while pending:
        chain = pending.pop()
        while isinstance(chain, Let):
            if isinstance(chain.value, Call) and chain.value.op in (
                machine_ops.ALLOC_STORAGE,
                machine_ops.ALLOC_STORAGE_REG,
                machine_ops.TAKE_STORAGE,
            ):
                found.append(chain.value)
            if isinstance(chain.value, If):
                pending += [chain.value.false_branch, chain.value.true_branch]
            chain = chain.body
    return found


def whys(text: str) -> list[str]:
    """Per storage the reason why it reuses no other, or that reuse is decided at run time."""
    return ["at run time" if s.op is machine_ops.TAKE_STORAGE else s.attrs.why for s in storages(planned_unfused(text))]


# ---- laws ----------------------------------------------------------------------------------------------------------


@settings(max_examples=PROGRAMS)
@given(memory_programs("fixed"), st.sampled_from(["cpu", "sim"]))
def test_nobody_reads_dead_bytes(text: str, target: str) -> None:
    assert dead_reads(planned_unfused(text, target)) == []


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=PROGRAMS)
@given(st.data(), st.integers(0, 4), st.sampled_from(["cpu", "sim"]))
def test_results_are_those_without_a_plan(kind: str, data: st.DataObject, i: int, target: str) -> None:
    text = data.draw(memory_programs(kind))
    rng = np.random.default_rng(i)
    given_ = [rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) for _ in "ab"]
    kept, results = [g.copy() for g in given_], []
    for plan in ("off", "on"):
        vm = relay.VirtualMachine(relay.compile(text, target=target, fuse="off", plan=plan))
        results.append([[r.numpy().copy() for r in vm.run(*given_, np.array(i))] for _ in range(2)])
        assert vm.memory["live_bytes"] == 0
    for without, with_ in zip(*results, strict=True):
        for a, b in zip(without, with_, strict=True):
            # sums may be made in another order where memory lies otherwise
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    for before, after in zip(kept, given_, strict=True):
        np.testing.assert_array_equal(before, after)


lives = st.tuples(st.integers(0, 30), st.integers(0, 12), st.integers(0, 700)).map(lambda t: (t[0], t[0] + t[1], t[2]))


@given(st.lists(lives, min_size=1, max_size=25))
def test_blocks_that_live_together_lie_apart(given_: list[tuple[int, int, int]]) -> None:
    positions = arena.assign_offsets(given_)
    for k, (start, last, size) in enumerate(given_):
        assert positions[k] % arena.ALIGNMENT == 0
        for j in range(k):
            together = given_[j][0] <= last and start <= given_[j][1]
            apart = positions[k] + size <= positions[j] or positions[j] + given_[j][2] <= positions[k]
            assert apart or not together or not size or not given_[j][2]


@given(st.lists(lives, min_size=1, max_size=25))
def test_blocks_of_a_slot_are_live_in_turn_and_no_larger_than_the_first(given_: list[tuple[int, int, int]]) -> None:
    positions = slots.assign_slots(given_)
    assert sorted(k for slot in positions for k in slot) == list(range(len(given_)))
    for slot in positions:
        assert all(given_[k][2] <= given_[slot[0]][2] for k in slot)
        turns = sorted(given_[k] for k in slot)
        assert all(before[1] < after[0] for before, after in pairwise(turns))


#: The next value from the value ``i``, of 1 to 8 times or a part of its columns.
COLUMN_FORMS = {
    "wider": "reverse(concatenate((%v{i}, %v{i}), axis=1), axis=0)",
    "narrower": "reverse(strided_slice(%v{i}, begin=[0], end=[1], axes=[1]), axis=0)",
    "same": "reverse(%v{i}, axis=0)",
    "first": "concatenate((%v{i}, %v0), axis=1)",
}


@settings(max_examples=PROGRAMS // 2)
@given(st.lists(st.sampled_from([*COLUMN_FORMS]), min_size=2, max_size=5), st.sampled_from(["cpu", "sim"]))
def test_slots_hold_the_values_of_any_batch(steps: list[str], target: str) -> None:
    lines = [f"let %v{i + 1} = {COLUMN_FORMS[step].format(i=i)};" for i, step in enumerate(steps)]
    body = f"let %v0 = reverse(%x, axis=0); {' '.join(lines)} sum(%v{len(steps)}, axis=[1])"
    text = f"{HEADER}def @main(%x: Tensor[(?n, 1), float32]) {{ {body} }}"
    off, on = (relay.VirtualMachine(relay.compile(text, target=target, fuse="off", plan=plan)) for plan in ("off", "on"))
    for n in (3, 0, 1, 70):
        x = np.arange(n, dtype=np.float32).reshape(n, 1)
        np.testing.assert_array_equal(on.run(x).numpy(), off.run(x).numpy())


# ---- memory plans --------------------------------------------------------------------------------------------------


def test_not_over_an_input_of_another_function_that_is_used_again() -> None:
    assert (
        whys("def @main(%x: Tensor[(?n), float32]) { add(reverse(exp(%x), axis=0), %x) }")[0] == "%x is not this function's own"
    )


def test_what_is_known_to_be_small_is_allocated_without_asking() -> None:
    assert whys("def @main(%x: Tensor[(4), float32]) { exp(%x) }") == ["%x is not this function's own"]


def test_not_by_a_kernel_that_reads_elsewhere() -> None:
    text = "def @main(%x: Tensor[(?n), float32]) { reverse(sin(%x), axis=0) }"
    assert whys(text)[1] == "@reverse does not write over %sin"


def test_not_over_what_is_part_of_the_result() -> None:
    text = "def @main(%x: Tensor[(?n), float32]) { let %a = sin(%x); (%a, exp(%a)) }"
    assert whys(text)[1] == "%a is used again"


def test_a_function_of_its_own_kernel_for_each_pair() -> None:
    mod = planned_unfused("def @main(%x: Tensor[(?n), float32]) { exp(sin(%x)) }")
    assert mod["exp_over_p0"].attrs["in_place"] == ((0, 0),)
    again = parse(mod.astext())
    assert again.astext() == mod.astext()


# ---- an error in a plan is found -----------------------------------------------------------------------------------

TWO = (
    "def @main(%x: Tensor[(3, 4), float32]) { let %a = sin(%x); let %b = reverse(%a, axis=0); sum(add(reverse(%b, axis=0), %a)) }"
)


def test_a_storage_that_is_given_up_too_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dead_reads(planned_unfused(TWO)) == []
    true_last = liveness.Storage.last.fget
    assert true_last is not None
    monkeypatch.setattr(liveness.Storage, "last", property(lambda s: min(true_last(s), s.at + 3)))
    assert dead_reads(planned_unfused(TWO)) != []


def test_a_result_over_an_input_that_is_read_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_place_reuse.Block, "used_after", lambda block, at: set())
    assert dead_reads(planned_unfused("def @main(%x: Tensor[(4), float32]) { let %a = sin(%x); sum(add(exp(%a), %a)) }")) != []


def test_a_kernel_reads_poison_where_a_plan_gives_up_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POISON_VARIABLE, "1")
    x = np.arange(8, dtype=np.float32)
    text = HEADER + "def @main(%x: Tensor[(8), float32]) { let %a = exp(%x); "
    text += "reverse(add(reverse(%a, axis=0), reverse(%x, axis=0)), axis=0) }"

    def ran() -> np.ndarray:
        return relay.VirtualMachine(relay.compile(text, fuse="off")).run(x).numpy()

    np.testing.assert_allclose(ran(), np.exp(x) + x, rtol=1e-6)
    # no number is ever the last: values end where they begin
    monkeypatch.setattr(liveness.Storage, "last", property(lambda s: s.at))
    with pytest.raises(relay.VMError, match="reverse: the tensors of a launch are not such as its kernel takes"):
        ran()
    monkeypatch.setenv(CHECK_VARIABLE, "0")
    assert not np.allclose(ran(), np.exp(x) + x)


ONE_MEMORY_TWICE = """
def @main(%x: Tensor[(3, 16), float32]) -> Tensor[(3, 16), float32] {
  let %a = abs(%x);
  let %b = reshape(%a, newshape=[3, 16]);
  let %c = reshape(%a, newshape=[-1, 16]);
  add(%b, %c)
}
"""


@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_result_is_not_written_over_two_parameters(level: int) -> None:
    """Two parameters of the last launch are one memory; the verifier accepts one parameter per result."""
    exe = relay.compile(HEADER + ONE_MEMORY_TWICE, fuse="off", opt_level=level)
    x = np.full((3, 16), -2, np.float32)
    np.testing.assert_array_equal(relay.VirtualMachine(exe).run(x).numpy(), 2 * abs(x))
