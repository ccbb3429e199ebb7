"""Memory of a result of unknown size in its live range: its own rows, not the upper bound allocated for its kernel."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.vm.bytecode import isa
from relayvm.vm.runtime.objects.heap import class_bytes, size_class
from relayvm.vm.runtime.tracing.trace_events import ALLOC
from relayvm.vm.runtime.view_handlers import LEAST_BOUND, LEAST_TIMES

from ..devices import DEVICES
from ..programs import HEADER, machine
from ..vm.runtime.plain import plain_machine

FOUND = HEADER + "def @main(%x: Tensor[(?n), float32]) { argwhere(greater(%x, 0f)) }"
N = 20_000
ITEM = 4  # bytes of an index


def vector(n: int, found: int) -> np.ndarray:
    """``n`` numbers, of which ``found`` are above 0."""
    x = np.full(n, -1, np.float32)
    x[np.random.default_rng(n).permutation(n)[:found]] = 1
    return x


def block(nbytes: int) -> int:
    """The bytes of the block that a storage of so many is."""
    return class_bytes(size_class(nbytes))


def pays(bound: int, nbytes: int) -> bool:
    return bound > 0 if nbytes == 0 else bound >= LEAST_BOUND and nbytes * LEAST_TIMES <= bound


# ---- live memory --------------------------------------------------------------------------------------------------

COUNTS = [(N, k) for k in (0, 1, N // 2, N // 2 + 1, N)] + [(0, 0), (1, 0), (1, 1), (1023, 1), (1024, 512), (1024, 0)]


@pytest.mark.parametrize("target", DEVICES)
@pytest.mark.parametrize(("n", "found"), COUNTS)
def test_a_result_that_is_kept_takes_its_own_bytes(n: int, found: int, target: str) -> None:
    vm, x = machine(FOUND, target), vector(n, found)
    held = [vm.run(x) for _ in range(3)]
    bound, nbytes = ITEM * n, ITEM * found
    assert vm.memory["live_bytes"] == 3 * block(nbytes if pays(bound, nbytes) else bound)
    for result in held:
        np.testing.assert_array_equal(result.numpy(), np.argwhere(x > 0))
    del held, result
    assert vm.memory["live_bytes"] == 0


@pytest.mark.parametrize("target", DEVICES)
def test_without_a_plan_the_bound_is_held(target: str) -> None:
    vm = machine(FOUND, target, plan="off")
    result = vm.run(vector(N, 1))
    assert vm.memory["live_bytes"] == block(ITEM * N)
    assert result.shape == (1, 1)


@pytest.mark.parametrize("target", DEVICES)
def test_each_result_of_one_kernel_has_its_own(target: str) -> None:
    text = HEADER + "def @main(%x: Tensor[(?n), float32]) { let %u = unique(%x, return_counts=True); (%u.0, %u.4) }"
    vm, x = machine(text, target), np.arange(N, dtype=np.float32) % 3
    values, counts = vm.run(x)
    assert vm.memory["live_bytes"] == 2 * block(3 * ITEM)
    np.testing.assert_array_equal(values.numpy(), [0, 1, 2])
    np.testing.assert_array_equal(counts.numpy(), np.bincount(x.astype(int)))


@pytest.mark.parametrize("target", DEVICES)
def test_a_result_over_the_rows_takes_their_storage(target: str) -> None:
    text = HEADER + "def @main(%x: Tensor[(?n), float32]) { negative(squeeze(argwhere(greater(%x, 0f)), axis=[1])) }"
    vm, rows = machine(text, target), machine(FOUND, target)
    for found in (3, N):  # in a storage of their own, and in the bound
        x = vector(N, found)
        vm.reset_counters()
        rows.reset_counters()
        result, _ = vm.run(x), rows.run(x)
        assert vm.memory["live_bytes"] == block(ITEM * found)
        assert vm.counters["allocs"] == rows.counters["allocs"]
        np.testing.assert_array_equal(result.numpy(), -np.flatnonzero(x > 0))


@pytest.mark.parametrize("target", DEVICES)
def test_a_function_that_goes_on_taking_memory_needs_less(target: str) -> None:
    text = HEADER + (
        "def @main(%x: Tensor[(?n), float32], %y: Tensor[(?m), float32]) {\n"
        "  let %i = squeeze(argwhere(greater(%x, 0f)), axis=[1]);\n"
        "  let %z = reverse(reverse(%y, axis=0), axis=0);\n"
        "  (take(%z, %i, axis=0),)\n"
        "}"
    )
    x, y = vector(N, 7), np.arange(8 * N, dtype=np.float32)
    peaks = {}
    for plan in ("off", "on"):
        vm = machine(text, target, plan=plan, fuse="off")
        (result,) = vm.run(x, y)
        np.testing.assert_array_equal(result.numpy(), y[np.flatnonzero(x > 0)])
        peaks[plan] = vm.counters["peak_bytes"]
    assert peaks["on"] <= peaks["off"] - block(ITEM * N) + block(7 * ITEM)


def test_where_there_is_no_memory_for_a_copy_the_rows_stay_in_the_bound() -> None:
    x = vector(N, N // 2)
    scratch = block(N) + block(ITEM * N) + block(8)
    vm = relay.VirtualMachine(relay.compile(FOUND), memory_limit_bytes=scratch)
    result = vm.run(x)
    assert vm.memory["live_bytes"] == block(ITEM * N)
    np.testing.assert_array_equal(result.numpy(), np.argwhere(x > 0))


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_the_trace_shows_the_storage_of_the_rows(target: str) -> None:
    exe = relay.compile(FOUND, target=target)
    vm = relay.VirtualMachine(exe)
    vm.start_trace()
    vm.run(vector(N, 5))
    events = [e for e in vm.stop_trace() if e.kind == ALLOC]
    assert events[-1].nbytes == 5 * ITEM
    trims = [pc for pc, i in isa.disassemble(exe.functions[0].code) if isinstance(i, isa.TrimTensor)]
    assert [events[-1].pc] == trims


def test_nothing_is_copied_to_the_host() -> None:
    vm = machine(FOUND, "sim")
    vm.run(vector(N, 5))
    assert (vm.counters["dtoh_copies"], vm.counters["dtoh_bytes"]) == (1, 8)  # the count


# ---- results equal the results without a plan ----------------------------------------------------------------------

_TY = "Tensor[(?), float32]"
_KEPT = "take({a}, squeeze(argwhere(greater({a}, {t}f)), axis=[1]), axis=0)"
_FORMS = (
    *(_KEPT, "unique({a}).0", 'cast(squeeze(argwhere(less({a}, {t}f)), axis=[1]), dtype="float32")'),
    *("negative({a})", "abs({a})", "concatenate(({a}, {b}), axis=0)", "@keep({a})", "@pass({a})", "@both({a}, {b}).0"),
    f"if (less(%i, 2i64)) {{{{ {_KEPT} }}}} else {{{{ negative({{b}}) }}}}",
    "if (less(%i, 1i64)) {{ {a} }} else {{ unique({b}).0 }}",
    # parts of what has moved, or has not
    "add(strided_slice({a}, begin=[0], end=[-1]), {t}f)",
    "reverse(strided_slice({a}, begin=[1], end=[40]), axis=0)",
    "@loop(%i, {a})",
)  # fmt: skip
_FUNCTIONS = f"""{HEADER}
def @keep(%x: {_TY}) -> {_TY} {{ let %k = {_KEPT.format(a="%x", t="0")}; let %n = abs(%k); reverse(%n, axis=0) }}
def @pass(%x: {_TY}) -> {_TY} {{ %x }}
def @both(%x: {_TY}, %y: {_TY}) -> ({_TY}, {_TY}) {{ let %u = unique(%x).0; (negative(%u), %y) }}
def @loop(%i: int64, %x: {_TY}) -> {_TY} {{
  if (less(%i, 1i64)) {{ %x }} else {{ @loop(subtract(%i, 1i64), {_KEPT.format(a="%x", t="0")}) }}
}}
"""


@st.composite
def bounded_programs(draw: st.DrawFn) -> str:
    """A program over a vector and a number, of operators whose results are as long as values say; one to three results."""
    values, lines = ["%x"], []
    for k in range(draw(st.integers(1, 7))):
        a, b = (values[-1] if draw(st.booleans()) else draw(st.sampled_from(values)) for _ in "ab")
        form = draw(st.sampled_from(_FORMS)).format(a=a, b=b, t=draw(st.sampled_from(["0", "1"])))
        lines.append(f"let %v{k} = {form};")
        values.append(f"%v{k}")
    result = ", ".join(draw(st.lists(st.sampled_from(values[1:]), min_size=1, max_size=3)))
    return f"{_FUNCTIONS}def @main(%x: {_TY}, %i: int64) {{ {' '.join(lines)} ({result},) }}\n"


@settings(max_examples=30)
@given(bounded_programs(), st.sampled_from([0, 1, 40, 3000]), st.integers(0, 3), st.sampled_from(["cpu", "sim"]))
def test_results_are_those_without_a_plan(text: str, n: int, i: int, target: str) -> None:
    x = np.random.default_rng(n + i).integers(-3, 4, n).astype(np.float32)
    kept, results = x.copy(), []
    for plan in ("off", "on"):
        vm = machine(text, target, plan=plan)
        results.append([[r.numpy().copy() for r in vm.run(x, np.array(i))] for _ in range(2)])
        assert vm.memory["live_bytes"] == 0
    for without, with_ in zip(*results, strict=True):
        for a, b in zip(without, with_, strict=True):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_the_loop_moves_rows_un_jitted_too(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exe, x = relay.compile(FOUND, target=target), vector(1500, 20)
    vm = plain_machine(exe, monkeypatch)
    result = vm.run(x)
    assert vm.memory["live_bytes"] == block(20 * ITEM)
    np.testing.assert_array_equal(result.numpy(), np.argwhere(x > 0))


def test_a_trim_that_is_not_told_to_is_a_view() -> None:
    exe = relay.compile(FOUND)
    code = exe.functions[0].code.copy()
    for pc, i in isa.disassemble(code):
        if isinstance(i, isa.TrimTensor):
            code[pc : pc + i.length] = dataclasses.replace(i, release=0).words()
    vm = relay.VirtualMachine(dataclasses.replace(exe, functions=(dataclasses.replace(exe.functions[0], code=code),)))
    result = vm.run(vector(N, 1))
    assert vm.memory["live_bytes"] == block(ITEM * N) and math.prod(result.shape) == 1
