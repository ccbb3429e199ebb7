"""Trials: measure the time of each implementation of an operator for a call of known sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ...ops.core.implementation import OpCall
from ...ops.core.op import Op
from ...ops.core.tensor_types import Tensor, TensorType
from ...ops.strategy.measured import Finding, Quartiles, implementations, static_shapes, untuned
from ...vm.api.executable import Executable
from ...vm.api.machine import VirtualMachine
from ...vm.report.completion import finish
from ...vm.report.interleaved import measure
from ..builder.build import make_call
from ..emit.emitter import emit
from ..inputs.random_inputs import draw
from ..ir.expr import Expr, Function, IRModule, Tuple, Var
from ..lowering.pipeline import context_of, lower
from ..settings.config import FORCE, Config

#: The number of samples of each implementation, its minimum for slow calls, and the least duration of a sample in seconds.
ROUNDS, FEWEST_ROUNDS, SAMPLE_SECONDS = 15, 7, 0.003
#: An implementation slower than the fastest by this factor in its first run is not measured further.
SLOW_FACTOR = 4.0
#: The approximate time limit of a trial in seconds, without compilation.
TRIAL_SECONDS = 2.0


def program(call: OpCall, implementation: str, target: str) -> Executable:
    """A program for ``target`` that consists of this call, computed by ``implementation``."""
    params = tuple(_param(f"x{i}", t) for i, t in enumerate(call.inputs))
    left, args = list(params), []
    for name in call.op.inputs:
        count = len(params) - len(call.op.inputs) + 1 if name.endswith("*") else 1
        taken, left = left[:count], left[count:]
        args.append(Tuple(tuple(taken)) if name.endswith("*") else taken[0])
    assert isinstance(call.op, Op)
    body: Expr = make_call(call.op, tuple(args), call.attrs)
    settings = Config.of(opt_level=0, **{FORCE + call.op.name: implementation})
    mod = IRModule({"main": Function(params, body)})
    return emit(lower(mod, settings, target), context_of(mod, settings, target), settings.texts())


def _param(name: str, tensor: Tensor) -> Var:
    return Var(name, TensorType(tensor.shape, tensor.dtype))


def trial(call: OpCall, target: str) -> Finding:
    """The times of all valid implementations of ``call``, whose sizes are known, on random data.

    Raises InputError if there is not enough memory, VMError for a failing run, ConfigError for a missing device.
    """
    shapes, default = static_shapes(call), untuned(call)
    assert shapes is not None, call
    arrays = [draw(f"x{i}", t.dtype, shape, 0) for i, (t, shape) in enumerate(zip(call.inputs, shapes, strict=True))]
    runs = {k.name: _run(program(call, k.name, target), arrays) for k in implementations(call)}
    first = {name: _seconds(run) for name, run in runs.items()}
    limit = max(SLOW_FACTOR * min(first.values()), SAMPLE_SECONDS)
    candidates = {name: run for name, run in runs.items() if first[name] <= limit or name == default}
    rounds = int(TRIAL_SECONDS / sum(max(first[name], SAMPLE_SECONDS) for name in candidates))
    timings = measure(candidates, max(FEWEST_ROUNDS, min(ROUNDS, rounds)), SAMPLE_SECONDS) if len(candidates) > 1 else {}
    ns = {name: Quartiles(*[1e9 * seconds] * 3) for name, seconds in first.items()}
    return Finding.of(ns | {name: Quartiles(t.low_ns, t.median_ns, t.high_ns) for name, t in timings.items()}, default)


def _run(exe: Executable, arrays: Sequence[object]) -> Callable[[], object]:
    machine = VirtualMachine(exe)

    def run() -> None:
        machine.run(*arrays)
        finish(machine)

    return run


def _seconds(run: Callable[[], object]) -> float:
    """The time of the second call: the first one may load code or data."""
    run()
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
