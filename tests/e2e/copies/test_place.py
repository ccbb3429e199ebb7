"""Device placement: equal results on other devices, with fewer copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.vm.device_table import DEVICES as ALL_DEVICES

from ...arrays import ints
from ...devices import HOST, TARGETS
from ...programs import HEADER, machine_on


def crossed(vm: relay.VirtualMachine) -> tuple[int, int]:
    """Copies to the host, and to the device."""
    return vm.counters["dtoh_copies"], vm.counters["htod_copies"]


# ---- one thing at a time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_a_chain_from_a_shape_to_a_shape_crosses_nowhere(target: str) -> None:
    vm = machine_on(target,
        "def @main(%x: Tensor[(?n, ?m), float32]) { let %s = shape_of(%x, dtype=\"int64\");"
        " dyn.reshape(%x, concatenate((expand_dims(take(%s, 0i64) * 2i64, axis=0), expand_dims(-1i64, axis=0)), axis=0)) }"
    )  # fmt: skip
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    result = vm.run(x)
    assert crossed(vm) == (0, 1)  # %x
    np.testing.assert_array_equal(result.numpy(), x.reshape(6, 2))


@pytest.mark.parametrize("target", TARGETS)
def test_a_narrow_shape_is_narrow_on_the_host(target: str) -> None:
    text = (
        'def @main(%x: Tensor[(?n, ?m), float32], %y: Tensor[(?k), float32]) {{ let %s = shape_of(%x, dtype="int32");'
        ' let %t = shape_of(%y, dtype="int32"); dyn.broadcast_to(%y, {0}) }}'
    )
    x, y = np.zeros((3, 2), np.float32), np.ones(4, np.float32)
    vm = machine_on(target, text.format("concatenate((%s, %t), axis=0)"))
    assert vm.run(x, y).shape == (3, 2, 4)
    vm = machine_on(target, text.format('cast(minimum(concatenate((%s, %t), axis=0) - 2, 3 * 30000000) + 2, dtype="int64")'))
    assert vm.run(x, y).shape == (3, 2, 4)
    assert vm.counters["dtoh_copies"] == 0


@pytest.mark.parametrize("target", TARGETS)
def test_a_parameter_that_only_decides_shapes_stays_on_the_host(target: str) -> None:
    vm = machine_on(target, "def @main(%x: Tensor[(?), float32], %s: Tensor[(2), int64]) { dyn.reshape(%x, %s + 1i64) }")
    result = vm.run(np.arange(6, dtype=np.float32), ints(1, 2))
    assert result.shape == (2, 3)
    assert crossed(vm) == (0, 1)


@pytest.mark.parametrize("target", TARGETS)
def test_a_result_goes_back_in_where_it_is_wanted(target: str) -> None:
    vm = machine_on(
        target,
        "def @vector(%a: int64) { stack((%a, 2i64), axis=0) }\n"
        "def @main(%x: Tensor[(?), float32], %s: Tensor[(2), int64]) { dyn.reshape(%x, %s) }",
    )
    vector = vm["vector"](np.array(3))
    before = vm.counters["dtoh_copies"]
    assert vm.run(np.zeros(6, np.float32), vector).shape == (3, 2)
    assert vector.device == target and vm.counters["dtoh_copies"] == before + 1


@pytest.mark.parametrize("target", TARGETS)
def test_a_parameter_of_which_only_the_shape_is_used_is_never_copied(target: str) -> None:
    vm = machine_on(target, 'def @main(%x: Tensor[(?, ?), float32]) { dyn.zeros(shape_of(%x, dtype="int64"), dtype="float32") }')
    assert vm.run(np.ones((2, 3), np.float32)).numpy().tolist() == [[0] * 3] * 2
    assert crossed(vm) == (1, 0)  # the result


@pytest.mark.parametrize("target", TARGETS)
def test_a_value_for_both_sides_never_comes_back_from_the_device(target: str) -> None:
    vm = machine_on(target, "def @main(%s: Tensor[(2), int64], %x: Tensor[(?), float32]) { (dyn.reshape(%x, %s), %s * 2i64) }")
    result = vm.run(ints(1, 2), np.zeros(2, np.float32))
    assert crossed(vm) == (0, 2)
    assert result[0].shape == (1, 2) and result[1].numpy().tolist() == [2, 4]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("place", ["on", "off"])
def test_shapes_of_several_lengths_are_narrowed_each(target: str, place: str) -> None:
    text = (
        "def @main(%x: Tensor[(?, ?, ?), float32], %y: Tensor[(?), float32]) "
        '{ (shape_of(%y, dtype="int32"), shape_of(%x, dtype="int32")) }'
    )
    result = machine_on(target, text, place=place).run(np.zeros((2, 3, 4), np.float32), np.zeros(5, np.float32))
    assert [r.numpy().tolist() for r in result] == [[5], [2, 3, 4]]


LOOP = """
def @loop(%i: int64, %n: int64, %x: Tensor[(?, 2), float32]) -> Tensor[(?, 2), float32] {
  if (%i < %n) { @loop(%i + 1i64, %n, concatenate((%x, %x * 2f), axis=0)) } else { %x }
}
def @main(%n: int64, %x: Tensor[(?, 2), float32]) { @loop(0i64, %n, %x) }
"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_loop_counter_lives_on_the_host(target: str) -> None:
    vms = {place: machine_on(target, LOOP, place=place) for place in ("off", "on")}
    results = [vm.run(np.array(5), np.ones((1, 2), np.float32)).numpy() for vm in vms.values()]
    np.testing.assert_array_equal(*results)
    copies = {place: vm.counters["dtoh_copies"] - 1 for place, vm in vms.items()}  # less the result's
    assert copies == {"off": 6, "on": 0}


@pytest.mark.parametrize("target", TARGETS)
def test_a_device_value_that_a_loop_reads_is_copied_before_it(target: str) -> None:
    text = """
    def @loop(%i: int64, %n: int64, %x: Tensor[(?), float32]) -> Tensor[(?), float32] {
      if (%i < %n) { @loop(%i + 1i64, %n, %x + 1f) } else { %x }
    }
    def @main(%x: Tensor[(?), float32]) { @loop(0i64, cast(sum(%x), dtype="int64"), %x) }
    """
    vm = machine_on(target, text)
    result = vm.run(np.array([1, 2], np.float32))
    assert vm.counters["dtoh_copies"] == 1
    assert result.numpy().tolist() == [4, 5]


@pytest.mark.parametrize("target", TARGETS)
def test_sizes_in_a_table_that_a_loop_reads_are_copied_once(target: str) -> None:
    """At most 100 rows, found on the device; the counter, which the device reads too, stays on the host."""
    text = (
        "def @main(%x: Tensor[(?n), float32]) {"
        ' let %t = cast(stack((%x, %x + 1f), axis=1), dtype="int64");'
        " let %table = strided_slice(%t, begin=[0], end=[100], strides=[1], axes=[0]);"
        " let %loop = fn (%i: int64, %sum: float32) -> float32 {"
        '   if (less(%i, take(shape_of(%table, dtype="int64"), 0i64, axis=0))) {'
        "     let %part = dyn.full(take(%x, %i, axis=0), take(%table, %i, axis=0));"
        "     %loop(%i + 1i64, %sum + sum(%part)) } else { %sum } };"
        " %loop(0i64, 0f) }"
    )
    vm = machine_on(target, text)
    for n in (9, 1, 0):
        x = np.arange(n, dtype=np.float32)
        before = vm.counters["dtoh_copies"]
        result = vm.run(x)
        assert vm.counters["dtoh_copies"] - before == 1  # %table
        assert float(result.numpy()) == sum(v * v * (v + 1) for v in range(n))


@pytest.mark.parametrize("target", TARGETS)
def test_a_tail_call_stays_one(target: str) -> None:
    text = """
    def @count(%i: int64, %n: int64) -> int64 { if (%i < %n) { @count(%i + 1i64, %n) } else { %i } }
    def @main(%x: Tensor[(?), float32], %n: int64) { dyn.full(1f, reshape(@count(0i64, %n), newshape=[1]), dtype="float32") }
    """
    vm = relay.VirtualMachine(relay.compile(HEADER + text, target=target), stack_limit_bytes=1 << 16)
    assert vm.run(np.zeros(1, np.float32), np.array(100_000)).shape == (100_000,)
    assert vm.counters["dtoh_copies"] == 0


# ---- annotations in programs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_on_device_is_obeyed(target: str) -> None:
    text = 'def @main(%x: Tensor[(?n, 4), float32]) {{ let %big = on_device(exp(%x), device="{0}"); %big + 1f }}'
    x = np.ones((3, 4), np.float32)
    for place in ("on", "off"):
        there, here = (machine_on(target, text.format(d), place=place) for d in (target, HOST))
        # a device's exponential is not the host's to the last bit
        np.testing.assert_allclose(here.run(x).numpy(), there.run(x).numpy(), rtol=1e-6)
        number = ALL_DEVICES.index(target)
        assert [p.device for p in here.exe.packed] == [0, number]
        assert [p.device for p in there.exe.packed] in ([number], [number, number])


@pytest.mark.parametrize("target", TARGETS)
def test_on_device_of_a_parameter_brings_it_there(target: str) -> None:
    vm = machine_on(target, 'def @main(%x: Tensor[(?), int64]) { let %h = on_device(%x, device="cpu"); %h + 1i64 }', place="off")
    assert vm.run(ints(1, 2)).numpy().tolist() == [2, 3]
    assert vm.counters["dtoh_copies"] == 2  # with the result


@pytest.mark.parametrize("target", TARGETS)
def test_on_device_of_an_if(target: str) -> None:
    text = (
        "def @main(%c: bool, %x: Tensor[(?), float32]) {{ "
        'let %k = on_device(if (%c) {{ 2i64 }} else {{ 3i64 }}, device="{0}"); dyn.tile(%x, reshape(%k, newshape=[1])) }}'
    )
    for device, copies in (("cpu", 0), ("sim", 1)):
        vm = machine_on(target, text.format(device))
        assert [vm.run(np.array(c), np.zeros(2, np.float32)).shape for c in (True, False)] == [(4,), (6,)]
        assert vm.counters["dtoh_copies"] == 2 * copies


@pytest.mark.parametrize("target", TARGETS)
def test_device_copy_is_obeyed(target: str) -> None:
    text = (
        "def @main(%x: Tensor[(?), int64]) { "
        'let %h = device_copy(%x, src="sim", dst="cpu"); device_copy(%h, src="cpu", dst="sim") }'
    )
    for place in ("on", "off"):
        vm = machine_on(target, text, place=place)
        result = vm.run(ints(1, 2))
        assert crossed(vm) == (1, 2)
        assert result.numpy().tolist() == [1, 2]


def test_a_copy_that_python_asks_for() -> None:
    x = relay.var("x", (relay.Any(),), "int64")
    there = relay.device_copy(x, "sim", relay.cpu())
    exe = relay.compile(relay.Function([x], relay.device_copy(there, "cpu", dst_device="sim")), target="sim")
    assert "the program asks for it" in str(exe.explain())
    assert relay.VirtualMachine(exe).run(ints(1, 2)).numpy().tolist() == [1, 2]


@pytest.mark.parametrize(
    ("call", "target", "message"),
    [
        ('on_device(%x, device="sim")', "cpu", "on_device names the device 'sim', but the program is compiled for 'cpu'"),
        ('on_device(%x, device="tpu")', "sim", "there is no such device; devices: cpu, sim"),
        ('device_copy(%x, src="tpu", dst="cpu")', "sim", "device_copy names the device 'tpu'"),
        ('on_device((%x, %x), device="cpu")', "sim", "on_device takes a tensor, not"),
    ],
)
def test_a_device_that_there_is_not(call: str, target: str, message: str) -> None:
    with pytest.raises(relay.TypeCheckError, match=message):
        relay.compile(HEADER + f"def @main(%x: Tensor[(?), int64]) {{ {call} }}", target=target)


def test_on_the_cpu_everything_is_on_the_host() -> None:
    vm = relay.VirtualMachine(relay.compile(HEADER + 'def @main(%x: float32) { on_device(%x + 1f, device="cpu") * 2f }'))
    assert vm.run(np.float32(1)).numpy() == 4


@pytest.mark.parametrize("target", TARGETS)
def test_devices_of_parameters_are_in_the_file(target: str, tmp_path: Any) -> None:
    exe = relay.compile(HEADER + LOOP, target=target)
    assert any(0 in f.devices for f in exe.functions)
    exe.save(tmp_path / "loop.rvm")
    vm = relay.VirtualMachine(relay.Executable.load(tmp_path / "loop.rvm"))
    vm.run(np.array(2), np.ones((1, 2), np.float32))
    assert vm.counters["dtoh_copies"] == 0


# ---- any program ---------------------------------------------------------------------------------------------------


class Programs:
    """Draws programs: matrices, vectors and scalars of small ints from shapes, parameters and device data; branches, loops."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw, self.count = draw, 0

    def pick(self, values: list[str]) -> str:
        return self.draw(st.sampled_from(values))

    def block(self, mats: list[str], vecs: list[str], ints: list[str], depth: int) -> str:
        """Bindings, and a matrix."""
        mats, vecs, ints, lines = list(mats), list(vecs), list(ints), []
        for _ in range(self.draw(st.integers(0, 6))):
            self.count += 1
            name = f"%v{self.count}"
            m, v, w, i, j = (self.pick(x) for x in (mats, vecs, vecs, ints, ints))
            kinds = [
                (mats, f"sqrt(abs({m}))"),  # the same bits on every device, unlike exp
                (mats, f"dyn.reshape({m}, {v})"),
                (mats, f"dyn.broadcast_to({m}, {v})"),
                (mats, f"dyn.tile({m}, minimum({v}, 2i64))"),
                (mats, f"sum({m}, axis=[0], keepdims=True)"),
                (mats, f'dyn.full(1f, minimum(abs({v}), 3i64), dtype="float32")'),
                (mats, f'multiply({m}, cast({i}, dtype="float32"))'),
                (mats, f'dyn.strided_slice({m}, minimum({v}, 0i64), {w}, cast(less({v}, 99i64), dtype="int64"))'),
                (mats, f"@loop(0i64, minimum({i}, 2i64), {j}, {m})"),
                (vecs, f'shape_of({m}, dtype="int64")'),
                (vecs, f'cast(shape_of({m}, dtype="int32"), dtype="int64")'),
                (vecs, f"stack(({i}, {j}), axis=0)"),
                (vecs, f"add({v}, {w})"),
                (vecs, f"multiply({v}, {i})"),
                (vecs, f"reshape({v}, newshape=[2])"),
                (vecs, f'{v} + 0i64 * cast(sum({m}, axis=[0, 1]), dtype="int64")'),
                (vecs, f"{v} + 0i64 * sum(argwhere({m}))"),
                (ints, f"take({v}, {self.draw(st.integers(0, 1))}i64)"),
                (ints, f"sum({v})"),
                (ints, f"add({i}, {j})"),
                (ints, f'cast(sum({m}), dtype="int64")'),
                (ints, 'cast(sum(%k), dtype="int64")'),
                (ints, f"@next({i})"),
                (ints, f'on_device({i} + 1i64, device="{self.pick(["cpu", "sim"])}")'),
                (ints, f"if ({i} < {j}) {{ {i} + 1i64 }} else {{ {self.pick([j, f'sum({v})'])} }}"),
            ]
            if depth and self.draw(st.integers(0, 5)) == 0:
                inner = [self.block(mats, vecs, ints, depth - 1) for _ in range(2)]
                lines.append(f"let {name} = if ({i} < {j}) {{ {inner[0]} }} else {{ {inner[1]} }};")
                mats.append(name)
            else:
                kind, value = kinds[self.draw(st.integers(0, len(kinds) - 1))]
                lines.append(f"let {name} = {value};")
                kind.append(name)
        return " ".join([*lines, self.pick(mats)])


ANY = "Tensor[(?, ?), float32]"


@st.composite
def programs(draw: st.DrawFn) -> str:
    body = Programs(draw).block(["%a", "%b", "%k"], ["%s", "%t"], ["%i", "1i64"], 2)
    return (
        "def @next(%x: int64) -> int64 { %x + 1i64 }\n"
        f"def @loop(%i: int64, %n: int64, %step: int64, %x: {ANY}) -> {ANY} "
        f"{{ if (%i < %n) {{ @loop(%i + maximum(abs(%step), 1i64), %n, %step, %x + 1f) }} else {{ %x }} }}\n"
        f"def @main(%a: {ANY}, %b: Tensor[(2, 3), float32], %k: Tensor[(3, 2), float32], %s: Tensor[(2), int64], "
        f"%t: Tensor[(2), int64], %i: int64) -> {ANY} {{ {body} }}\n"
    )


ARGUMENTS = (
    np.array([[0, 1, 2], [0, 0, 1]], np.float32), np.ones((2, 3), np.float32), np.arange(6, dtype=np.float32).reshape(3, 2),
    ints(1, 2), ints(2, 1), np.array(2),
)  # fmt: skip


def outcome(vm: relay.VirtualMachine) -> tuple[Any, int, int, int]:
    """The result or what went wrong, the bytes to the host and to the device, and how many copies went to the host."""
    try:
        result: Any = vm.run(*ARGUMENTS)
    except relay.VMError as error:
        result = error.diagnostics[0].message
    counters = vm.counters
    return result, counters["dtoh_bytes"], counters["htod_bytes"], counters["dtoh_copies"]


@pytest.mark.parametrize("target", TARGETS)
@settings(max_examples=40)
@given(programs(), st.sampled_from(["input", "op", "relay"]), st.sampled_from([0, 2]))
def test_what_runs_differs_only_in_where(target: str, program: str, dependence: str, level: int) -> None:
    found = []
    for place in ("off", "on"):
        try:
            vm = machine_on(target, program, place=place, data_dependence=dependence, opt_level=level)
        except relay.TypeCheckError as error:
            found.append((str(error), 0, 0, 0))
            continue
        result, *counts = outcome(vm)
        found.append((result if isinstance(result, str) else result.numpy(), *counts))
    off, on = found
    if isinstance(off[0], str):
        assert on[0] == off[0]
        return
    np.testing.assert_array_equal(on[0], off[0])
    body = program.rpartition("@main")[2]
    if "if (" not in body and "@loop" not in body:
        # with branches the cut is by what always runs, then by what may: which branch a run takes it cannot know
        assert on[1] + on[2] <= off[1] + off[2], "more bytes cross"
        assert on[3] <= off[3], "the host waits more often"
