"""Kernels in several threads: bit-identical results for any number, errors, concurrent machines, fork, exit."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.commands.environment import environment, environment_text
from relayvm.ops.native.status import DIVISION_BY_ZERO
from relayvm.ops.native.threads import team as team
from relayvm.ops.native.threads.work_partition import WAKING, WORTH_A_THREAD
from relayvm.vm.options import THREADS_VARIABLE as VARIABLE
from relayvm.vm.thread_count import MOST

COUNTS = (1, 2, 3, 7)
#: Work above which kernels are partitioned in these tests.
LIMIT = 10_000

PROGRAMS = {
    "flat": "exp(%x) * 2f",
    "general": "%x + sum(%x, axis=[0])",
    "rows": "sum(exp(%x), axis=[1])",
    "rows in passes": "nn.layer_norm(%x, sum(%x, axis=[0]), mean(%x, axis=[0]))",
    "columns": "mean(%x, axis=[0])",
    "several results": "(exp(%x), tanh(exp(%x)), max(%x, axis=[1]))",
    "softmax": "nn.softmax(%x)",
    "sorted": "(sort(%x, axis=1), topk(%x, k=1, axis=1), cumsum(%x, axis=1))",
    "product": "nn.dense(%x, %x)",
    "one element": "sum(%x)",
}


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    team.set_patience()
    team.set_worth()
    relay.set_num_threads(None)


def machine(body: str, target: str = "cpu", dtype: str = "float32") -> relay.VirtualMachine:
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n, ?m), {dtype}]) {{ {body} }}'
    return relay.VirtualMachine(relay.compile(relay.parse(text), target=target))


def use(n: int) -> None:
    """Use ``n`` threads, also for little work."""
    relay.set_num_threads(n)
    team.set_patience(0)  # the load of other processes does not matter
    team.set_worth(LIMIT)


def leaves(result: object) -> list[bytes]:
    return [b for r in result for b in leaves(r)] if isinstance(result, tuple) else [result.numpy().tobytes()]


def image(n: int, m: int) -> np.ndarray:
    return np.random.default_rng(n).standard_normal((n, m)).astype("float32")


@pytest.mark.split(2)
@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_bits_do_not_depend_on_the_number_of_threads(name: str, target: str) -> None:
    vm = machine(PROGRAMS[name], target)
    for x in (image(0, 5), image(1, 1), image(19, 21), image(20, 25), image(63, 65), image(301, 2400)):
        found, before = set(), team.splits()
        for n in COUNTS:
            use(n)
            found.add(tuple(leaves(vm.run(x))))
        assert len(found) == 1
        if x.size < 100 or x.size > 10_000:
            assert (team.splits() > before) == (x.size > 10_000 and name != "one element")


def test_what_has_little_work_is_not_divided() -> None:
    vm = machine("exp(%x)")
    relay.set_num_threads(3)
    for elements, divided in [(WAKING * WORTH_A_THREAD // 24, 0), (WAKING * WORTH_A_THREAD // 24 + 1, 1)]:
        time.sleep(0.05)  # workers sleep
        before = team.splits()
        vm.run(np.zeros((1, elements), "float32"))
        assert team.splits() - before == divided
    relay.set_num_threads(1)
    vm.run(np.zeros((1, WORTH_A_THREAD), "float32"))
    assert team.splits() == before + 1


def test_less_work_is_divided_while_a_worker_is_awake() -> None:
    vm = machine("exp(%x)")
    relay.set_num_threads(2)
    team.set_patience(0)
    vm.run(np.zeros((1, 40 * WORTH_A_THREAD // 24), "float32"))  # starts the worker
    for elements, divided in [(WORTH_A_THREAD // 24, False), (WORTH_A_THREAD // 24 + 1, True)]:
        asleep_by = time.monotonic() + 10
        while team._team["awake"] and time.monotonic() < asleep_by:
            time.sleep(0.001)
        assert team._team["limit"] == team._team["limit_asleep"]
        # as a worker that is awake leaves it: on a busy system the worker may sleep again before the next call
        team._team["limit"] = team._team["limit_awake"]
        before = team.splits()
        vm.run(np.zeros((1, elements), "float32"))
        assert (team.splits() > before) == divided
        team._team["limit"] = team._team["limit_asleep"]


def test_nothing_is_compiled_for_another_number_of_threads() -> None:
    relay.set_num_threads(2)
    vm = machine("exp(%x) - 3f")
    use(7)
    assert {u.how for u in machine("exp(%x) - 3f").prepared} == {"memory_hits"}
    assert vm.kernel_compiles == 0 or vm.prepared


@pytest.mark.parametrize("n", COUNTS)
def test_a_part_fails(n: int) -> None:
    vm = machine('%x / cast(%x > 0i32, dtype="int32")', dtype="int32")
    use(n)
    x = np.ones((100, 100), "int32")
    expected = vm.run(x).numpy()
    for at in (0, 4321, 9999):
        x[at // 100, at % 100] = 0
        with pytest.raises(relay.VMError) as error:
            vm.run(x)
        assert error.value.status == DIVISION_BY_ZERO
        x[at // 100, at % 100] = 1
    np.testing.assert_array_equal(vm.run(x).numpy(), expected)


def test_several_machines_at_once() -> None:
    use(3)
    x = image(200, 300)
    machines = [machine("exp(%x)"), machine("tanh(%x)"), machine("mean(%x, axis=[0])")]
    expected = [leaves(vm.run(x)) for vm in machines]
    wrong: list[int] = []
    before = team.splits()

    def work(k: int) -> None:
        for _ in range(200):
            if leaves(machines[k].run(x)) != expected[k]:
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(len(machines))]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert wrong == [] and team.splits() > before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_child_makes_workers_of_its_own() -> None:
    use(3)
    vm, x = machine("exp(%x)"), image(200, 300)
    expected = leaves(vm.run(x))
    child = os.fork()
    if child == 0:
        ok = team.workers() == 0 and leaves(vm.run(x)) == expected and team.workers() == 2
        os._exit(0 if ok else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert leaves(vm.run(x)) == expected and team.workers() >= 2


ENDING = """
import signal, sys, threading
import numpy as np, relayvm as relay
relay.set_num_threads(3)
vm = relay.VirtualMachine(relay.compile(relay.parse('#[version = "0.0.5"] def @main(%x: Tensor[(?n), float32]) { exp(%x) }')))
x = np.zeros(1_000_000, "float32")
vm.run(x)
if sys.argv[1] == "signal":
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
    signal.raise_signal(signal.SIGUSR1)
if sys.argv[1] == "thread":
    threading.Thread(target=lambda: [vm.run(x) for _ in range(50)], daemon=True).start()
"""


@pytest.mark.parametrize(("how", "code"), [("end", 0), ("thread", 0), ("signal", 7)])
def test_a_process_ends_with_its_workers_asleep(how: str, code: int) -> None:
    done = subprocess.run([sys.executable, "-c", ENDING, how], capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (code, "")


def test_the_number_of_threads() -> None:
    relay.set_num_threads(5)
    assert relay.get_num_threads() == 5
    relay.set_num_threads(None)
    assert 1 <= relay.get_num_threads() <= (os.cpu_count() or 1)


@pytest.mark.parametrize("number", [0, -1, MOST + 1, 1.0, "2", True])
def test_no_number_of_threads(number: object) -> None:
    with pytest.raises(relay.ConfigError) as error:
        relay.set_num_threads(number)  # type: ignore[arg-type]
    assert str(error.value) == f"error: {number!r} is no number of threads\nhelp: a whole number from 1 to 1024"


def test_the_environment_says_how_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "3")
    relay.set_num_threads(None)
    assert relay.get_num_threads() == 3
    for number in ("", "0", "two", "-1", "1.5", str(MOST + 1), "9" * 50):
        monkeypatch.setenv(VARIABLE, number)
        with pytest.raises(relay.ConfigError) as error:
            machine("exp(%x)")
        text = f"error: RELAYVM_NUM_THREADS is {number!r}, which is no number of threads\nhelp: a whole number from 1 to 1024"
        assert str(error.value) == text
    monkeypatch.delenv(VARIABLE)


@pytest.mark.parametrize(("number", "wanted"), [("3", 3), (" 3 ", 3), ("4,2", 4), ("4 , 2", 4), ("1", 1), ("1024", 1024)])
def test_without_a_variable_of_its_own_openmp_s_says_how_many(monkeypatch: pytest.MonkeyPatch, number: str, wanted: int) -> None:
    relay.set_num_threads(None)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", number)
    assert (relay.get_num_threads(), environment()["threads"]) == (wanted, {"number": wanted, "source": "OMP_NUM_THREADS"})
    monkeypatch.setenv(VARIABLE, "2")
    assert (relay.get_num_threads(), environment()["threads"]["source"]) == (2, VARIABLE)
    relay.set_num_threads(5)
    assert (relay.num_threads(), environment()["threads"]["source"]) == (5, "set_num_threads")
    relay.set_num_threads(None)


@pytest.mark.parametrize("number", ["", "0", "-1", "two", ",2", "1.5", "1025", "9" * 5000, "\u0663", "TRUE"])
def test_what_is_no_number_of_openmp_s_threads_is_passed_over(monkeypatch: pytest.MonkeyPatch, number: str) -> None:
    relay.set_num_threads(None)
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = relay.get_num_threads()
    monkeypatch.setenv("OMP_NUM_THREADS", number)
    assert (relay.get_num_threads(), environment()["threads"]["source"]) == (cores, "cores")
    text = f"threads    {cores}, by cores\n"
    assert text in environment_text(environment())
    monkeypatch.setenv(VARIABLE, "x")
    assert "threads    RELAYVM_NUM_THREADS is 'x', which is no number of threads\n" in environment_text(environment())
