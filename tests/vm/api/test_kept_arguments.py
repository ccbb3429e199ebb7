"""Arguments and results that a machine keeps between calls, outputs of the caller, benchmarks."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.vm.report.benchmark import BenchmarkResult

from ...devices import DEVICES
from ...programs import machine

TEXT = """
def @main(%x: Tensor[(?n, 4), float32], %y: Tensor[(?n, 4), float32]) { (add(%x, %y), subtract(%x, %y)) }
def @next(%i: int32) { add(%i, 1) }
def @pair(%p: (float32, Tensor[(2), int32])) { %p.1 }
def @one() { 1f }
"""
X, Y = np.arange(12, dtype="float32").reshape(3, 4), np.ones((3, 4), "float32")


@pytest.fixture(params=[d for d in DEVICES if d != "cuda"])
def vm(request: pytest.FixtureRequest) -> relay.VirtualMachine:
    return machine(TEXT, request.param)


def values(outputs: list[Any]) -> list[Any]:
    return [output.numpy().tolist() for output in outputs]


def test_kept_arguments_serve_every_call_without_arguments(vm: relay.VirtualMachine) -> None:
    vm.set_input("main", X, Y)
    expected = [(X + Y).tolist(), (X - Y).tolist()]
    for call in (vm.run, vm, vm["main"], lambda: vm.invoke("main")):
        assert values(call()) == expected == values(vm.get_outputs())
    assert vm.invoke_stateful("main") is None  # type: ignore[func-returns-value]
    assert values(vm.get_outputs()) == expected


@pytest.mark.parametrize("unused", [{}, {"z": None, "n": 3}])
def test_names_and_order(vm: relay.VirtualMachine, unused: dict[str, Any]) -> None:
    for args, named in (((), {"y": Y, "x": X}), ((Y,), {"x": X}), ((X,), {"y": Y})):
        vm.set_input("main", *args, **named, **unused)
        assert values(vm.run())[1] == (X - Y).tolist()
        assert values(vm.invoke("main", *args, **named, **unused))[1] == (X - Y).tolist()
        vm.invoke_stateful("main", *args, **named, **unused)
        assert values(vm.get_outputs())[1] == (X - Y).tolist()


def test_one_argument_by_name_number_or_keyword(vm: relay.VirtualMachine) -> None:
    vm.set_one_input("main", "x", X)
    vm.set_one_input("main", 1, Y)
    assert values(vm.run())[1] == (X - Y).tolist()
    vm.set_one_input("main", y=2 * Y)
    vm.set_one_input("main", np.int64(0), X + 1)
    assert values(vm.run())[1] == (X + 1 - 2 * Y).tolist()
    vm.set_one_input("pair", "p", (1, [2, 3]))
    assert vm.invoke("pair").tolist() == [2, 3]


def test_each_function_has_its_own_arguments(vm: relay.VirtualMachine) -> None:
    vm.set_input("main", X, Y)
    vm.set_input("next", 4)
    assert vm.invoke("next").tolist() == 5 and vm.invoke("one").tolist() == 1.0
    assert values(vm.get_outputs()) == [1.0]
    assert values(vm.run())[0] == (X + Y).tolist()


def test_arrays_are_copied_and_results_are_passed_on(vm: relay.VirtualMachine) -> None:
    x = X.copy()
    vm.set_input("main", x, Y)
    x[:] = 0
    total, _ = vm.run()
    assert total.tolist() == (X + Y).tolist()
    vm.set_input("main", total, total)
    copies = vm.counters["htod_copies"]
    assert vm.run()[0].tolist() == (2 * (X + Y)).tolist()
    assert vm.counters["htod_copies"] == copies


def test_input_index(vm: relay.VirtualMachine) -> None:
    assert [vm.get_input_index(name) for name in ("x", "y", "z")] == [0, 1, -1]
    assert vm.get_input_index("i", "next") == 0 and vm.get_input_index("i", func_name="main") == -1


def test_outputs_are_written_in_place(vm: relay.VirtualMachine) -> None:
    outputs = [np.zeros((3, 4), "float32"), np.zeros((4, 3), "float32").T]
    assert vm.invoke_with_outputs("main", {"x": X, "y": Y, "unused": 1}, outputs) is None  # type: ignore[func-returns-value]
    assert [o.tolist() for o in outputs] == [(X + Y).tolist(), (X - Y).tolist()]
    vm.invoke_with_outputs("main", [Y, X], outputs)
    assert outputs[1].tolist() == (Y - X).tolist()
    outputs[1][:] = 0
    vm.invoke_with_outputs("main", {}, outputs)
    assert outputs[1].tolist() == (Y - X).tolist()


def test_results_and_other_arrays_on_the_host_are_outputs() -> None:
    vm = machine(TEXT)
    scalar = vm.invoke("one")
    vm.invoke_with_outputs("one", None, [scalar])
    result = vm["next"](1)
    vm.invoke_with_outputs("next", [6], [result])
    assert result.tolist() == 7

    class Foreign:
        array = np.zeros((), "int32")

        def __dlpack__(self, **named: Any) -> Any:
            return self.array.__dlpack__(**named)

        def __dlpack_device__(self) -> Any:
            return self.array.__dlpack_device__()

    vm.invoke_with_outputs("next", [8], [Foreign()])
    assert Foreign.array == 9


def test_a_kept_result_is_freed_with_the_next_one() -> None:
    vm = machine(TEXT)
    vm.invoke_stateful("main", X, Y)
    vm.get_outputs()
    gc.collect()
    before = vm.memory["live_bytes"]
    for _ in range(5):
        vm.invoke_stateful("main")
    assert vm.memory["live_bytes"] == before


def test_counters_do_not_age_a_result() -> None:
    vm = machine(TEXT)
    vm.invoke_stateful("next", 1)
    vm.reset_counters()
    assert values(vm.get_outputs()) == [2]
    vm["next"](1)
    vm.reset_counters()
    with pytest.raises(relay.VMError, match="has run again"):
        vm.get_outputs()


PARAMETERS = "help: its parameters: %x: Tensor[(?n, 4), float32], %y: Tensor[(?n, 4), float32]"
OUTPUT = "help: numpy.empty(shape, dtype) for each result"
Wrong = tuple[Callable[[relay.VirtualMachine], object], str, str]
WRONG: tuple[Wrong, ...] = (
    (lambda vm: vm.get_outputs(), "this VirtualMachine keeps no result",
     'help: invoke_stateful("main") runs on the arguments of set_input and keeps the result'),
    (lambda vm: (vm.invoke_stateful("one"), vm["one"](), vm.get_outputs()),
     "this VirtualMachine has run again since the result that it keeps",
     "help: run, benchmark and profile keep no result; read get_outputs before them"),
    (lambda vm: vm.invoke_stateful("main"), "@main: no value for %x, %y", PARAMETERS),
    (lambda vm: (vm.set_one_input("main", "y", Y), vm.invoke_stateful("main")), "@main: no value for %x", PARAMETERS),
    (lambda vm: vm.set_input("main", x=X, z=1), "@main: no value for %y", PARAMETERS),
    (lambda vm: vm.set_input("main", X, X, X), "@main takes 2 arguments, 3 were given", PARAMETERS),
    (lambda vm: vm.set_input("main", X, X, y=X), "@main takes 2 arguments, 3 were given", PARAMETERS),
    (lambda vm: vm.set_input("mian", X), "the program has no function @mian; did you mean @main?",
     "help: its functions: @main, @next, @pair, @one"),
    (lambda vm: vm.invoke("zzz"), "the program has no function @zzz", "help: its functions: @main, @next, @pair, @one"),
    (lambda vm: vm.set_input("main", X, Y[:2]), "@main: %y has size 2 on axis 0, but ?n is 3",
     "help: ?n is 3 because of %x axis 0; equal names are equal sizes"),
    (lambda vm: vm.set_input("next", 1.5), "@next: %i has dtype float64, not int32",
     "help: %i is declared int32; convert with .astype"),
    (lambda vm: vm.set_one_input("main", "w", X), "@main has no parameter 'w'", PARAMETERS),
    (lambda vm: vm.set_one_input("main", 2, X), "@main has no parameter 2: it has 2", PARAMETERS),
    (lambda vm: vm.set_one_input("main", -1, X), "@main has no parameter -1: it has 2", PARAMETERS),
    (lambda vm: vm.set_one_input("main", X), "set_one_input takes a parameter and its value, not 1 arguments and 0 by name",
     'help: set_one_input("main", "x", array)'),
    (lambda vm: vm.set_one_input("main", None, X), "set_one_input: the parameter must be a str, not None",
     "help: its name or its number"),
    (lambda vm: vm.invoke_with_outputs("main", [X, Y], [X.copy()]), "@main needs 2 outputs, 1 were given", OUTPUT),
    (lambda vm: vm.invoke_with_outputs("next", [1], [np.zeros(1, "int32")]),
     "@next: output 0 is Tensor[(1), int32], the result is int32", OUTPUT),
    (lambda vm: vm.invoke_with_outputs("next", [1], [np.zeros((), "int64")]),
     "@next: output 0 is int64, the result is int32", OUTPUT),
    (lambda vm: vm.invoke_with_outputs("one", [], [np.broadcast_to(np.float32(1), ())]), "output 0 is read-only", OUTPUT),
    (lambda vm: vm.invoke_with_outputs("one", [], ["out"]), "output 0 is no array: str", OUTPUT),
    (lambda vm: vm.benchmark("gpu"),
     "the executable was compiled for 'cpu', not 'gpu' (there is no device 'gpu'; devices: cpu, sim, cuda)",
     "help: compile for it: target=..."),
    (lambda vm: vm.benchmark(), "@main: no value for %x, %y", PARAMETERS),
    (lambda vm: vm.benchmark(repeat=0), "benchmark: repeat must be a whole number of at least 1, not the int 0", ""),
    (lambda vm: vm.benchmark(min_repeat_ms=-1),
     "benchmark: min_repeat_ms must be a number of milliseconds, not the int -1", ""),
)  # fmt: skip


@pytest.mark.parametrize(("call", "message", "last"), WRONG, ids=[message for _, message, _ in WRONG])
def test_wrong_uses(call: Callable[[relay.VirtualMachine], object], message: str, last: str) -> None:
    with pytest.raises(relay.RelayError) as caught:
        call(machine(TEXT))
    first = caught.value.diagnostics[0]
    assert (first.message, f"help: {first.help}" if first.help else "") == (message, last)


def test_relays_lists_of_devices_and_allocator() -> None:
    exe = relay.compile(relay.Function([], relay.const(1.0)), "sim")
    for devices in (["sim"], ["sim", relay.cpu()], (relay.cpu(), "sim"), [], "sim", None):
        assert relay.VirtualMachine(exe, devices, "pooled").run().tolist() == 1
    for args, message in (
        ((["sim", "cuda"],), "a machine runs on one device besides the CPU, not on sim and cuda"),
        (([relay.cpu()],), "the executable was compiled for 'sim', not 'cpu'"),
        (([1],), "VirtualMachine: a device must be a str, not the int 1"),
        (("sim", "naive"), "VirtualMachine: memory_cfg must be None or 'pooled', not the str 'naive'"),
        (("sim", np.ones(2)), "VirtualMachine: memory_cfg must be None or 'pooled', not a ndarray"),
    ):
        with pytest.raises(relay.RelayError) as caught:
            relay.VirtualMachine(exe, *args)  # type: ignore[arg-type]
        assert caught.value.diagnostics[0].message == message


def test_an_output_on_a_device_is_refused() -> None:
    vm = machine(TEXT, "sim")
    with pytest.raises(relay.InputError, match="output 0 is on sim: results are copied to outputs on the host only"):
        vm.invoke_with_outputs("next", [1], [vm["next"](1)])


def test_outputs_that_do_not_fit_are_not_written(vm: relay.VirtualMachine) -> None:
    outputs = [np.zeros((3, 4), "float32"), np.zeros((3, 3), "float32")]
    with pytest.raises(relay.InputError, match="output 1"):
        vm.invoke_with_outputs("main", [X, Y], outputs)
    assert not outputs[0].any()


def test_benchmark(vm: relay.VirtualMachine) -> None:
    found = vm.benchmark(vm.device, X, Y, repeat=3, number=2)
    assert len(found.results) == 3 and found.min <= found.median <= found.max and 0 < found.min < 1
    vm.set_input("next", 1)
    assert len(vm.benchmark(func_name="next", repeat=2, end_to_end=True).results) == 2
    before = vm.counters["instructions"]
    vm.invoke("next")
    per_call = vm.counters["instructions"] - before
    vm.reset_counters()
    vm.benchmark(func_name="next", repeat=3, number=4)
    assert vm.counters["instructions"] == per_call * (1 + 3 * 4)


def test_benchmark_copies_end_to_end_only() -> None:
    vm = machine(TEXT, "sim")
    vm.set_input("main", X, Y)
    vm.benchmark(repeat=1, number=3)
    assert (vm.counters["htod_copies"], vm.counters["dtoh_copies"]) == (2, 0)
    vm.reset_counters()
    vm.benchmark(repeat=1, number=3, end_to_end=True)
    assert (vm.counters["htod_copies"], vm.counters["dtoh_copies"]) == (8, 8)


def test_a_repetition_lasts_and_the_machine_cools_down() -> None:
    vm = machine(TEXT)
    start = time.perf_counter()
    vm.benchmark(func_name="one", repeat=3, number=1, min_repeat_ms=20)
    assert time.perf_counter() - start >= 0.06
    start = time.perf_counter()
    vm.benchmark(func_name="one", repeat=5, number=1, cooldown_interval_ms=20, repeats_to_cooldown=2)
    assert 0.04 <= time.perf_counter() - start < 1


def test_figures_of_a_benchmark() -> None:
    found = BenchmarkResult((1e-3, 2e-3, 6e-3))
    assert (found.mean, found.median, found.min, found.max) == pytest.approx((3e-3, 2e-3, 1e-3, 6e-3))
    assert found.std == pytest.approx(np.std(found.results))
    shown = "mean 3.0000ms, median 2.0000ms, max 6.0000ms, min 1.0000ms, std 2.1602ms; 3 repetitions"
    assert str(found) == shown
