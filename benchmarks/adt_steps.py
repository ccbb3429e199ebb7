"""Steps of programs over algebraic data types, for ``dispatch``: a match, a call of a closure, a list cell.

match    a step of a walk through a list: a match, a field, a tail call; beside Python's walk through the same pairs
closure  what a call of a closure in each step adds; beside a call of Python's closure
cell     a cell of a list of 1,000,000 that the program builds and the prelude's foldl adds up: two operators and a match to
         build it, a match, a closure and an operator to fold it
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import relayvm as relay
from relayvm.vm.report.interleaved import Timing, measure

CELLS, WALKS, LONG = 1000, 100, 1_000_000
OURS, PYTHON = "relayvm", "python"
Run = Callable[[], object]

_TEXT = """
def @build(%n: int32, %l: List[int32]) -> List[int32] { if (%n == 0) { %l } else { @build(%n - 1, Cons(%n, %l)) } }
def @walk(%l: List[int32], %a: int32) -> int32 { match (%l) { Cons(_, %t) => @walk(%t, %a), Nil => %a } }
def @call(%f: fn(int32) -> int32, %l: List[int32], %a: int32) -> int32 {
  match (%l) { Cons(_, %t) => @call(%f, %t, %f(%a)), Nil => %a }
}
"""


def machine(main: str) -> relay.VirtualMachine:
    """A machine for a ``main`` over the prelude and the functions above."""
    mod = relay.IRModule()
    mod.import_from_std("prelude.rly")
    mod = relay.parse(f'#[version = "0.0.5"]\n{_TEXT}\n{main}', init_module=mod)
    return relay.VirtualMachine(relay.compile(mod, target="cpu"))


def ours(step: str, walks: int) -> Run:
    """A run that builds a list and walks through it ``walks`` times."""
    lines = [f"let %a{i + 1} = {step.format(a=f'%a{i}')};" for i in range(walks)]
    head = "let %l = @build(%n, Nil); let %f = fn (%x: int32) -> int32 { %n }; let %a0 = %n;"
    vm = machine(f"def @main(%n: int32) -> int32 {{ {head} {' '.join(lines)} %a{walks} }}")
    n = np.array(CELLS, np.int32)
    return lambda: vm.run(n).numpy()


def pythons(calls: bool, walks: int) -> Run:
    """The same in Python, over nested pairs."""
    cells: object = None
    for k in range(CELLS):
        cells = (k, cells)

    def walk() -> int:
        n = CELLS
        f = (lambda x: n) if calls else None
        a = n
        for _ in range(walks):
            rest = cells
            while rest is not None:
                if f is not None:
                    a = f(a)
                rest = rest[1]  # type: ignore[index]
        return a

    return walk


def steps(rounds: int) -> dict[str, dict[str, Timing]]:
    """Nanoseconds per step, by task and contestant."""
    found: dict[str, dict[str, Timing]] = {"match": {}, "closure": {}, "cell": {}}
    for name, make in {
        OURS: lambda calls, walks: ours("@call(%f, %l, {a})" if calls else "@walk(%l, {a})", walks),
        PYTHON: pythons,
    }.items():
        runs = {(calls, walks): make(calls, walks) for calls in (False, True) for walks in (1, WALKS + 1)}
        for run in runs.values():
            if run() != CELLS:
                raise SystemExit(f"{name}: the walk ends with another value")
        times = measure({str(key): run for key, run in runs.items()}, rounds)
        walk = _difference(times[str((False, WALKS + 1))], times[str((False, 1))]).per(CELLS * WALKS)
        call = _difference(times[str((True, WALKS + 1))], times[str((True, 1))]).per(CELLS * WALKS)
        found["match"][name] = walk
        found["closure"][name] = _difference(call, walk)
    vm = machine("def @main(%n: int32) -> int32 { @foldl(fn (%a: int32, %x: int32) -> int32 { %a + %x }, 0, @build(%n, Nil)) }")
    n = np.array(LONG, np.int32)
    found["cell"][OURS] = measure({OURS: lambda: vm.run(n).numpy()}, min(rounds, 5))[OURS].per(LONG)
    return found


def _difference(more: Timing, less: Timing) -> Timing:
    """The times of ``more`` without the median of ``less``."""
    values = (more.median_ns, more.min_ns, more.max_ns, more.low_ns, more.high_ns)
    return Timing(*(ns - less.median_ns for ns in values), more.samples, more.calls_per_sample)
