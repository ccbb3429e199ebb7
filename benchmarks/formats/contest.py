"""Runs of one case by each contestant, compared and timed in turn."""

from __future__ import annotations

import functools
import importlib.util
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime
from fma_peak import multiply_add
from onnx_models import machine_state

import relayvm as relay
from relayvm.ops.native import vector_registers
from relayvm.ops.native.front_end.llvm import host
from relayvm.vm.report.interleaved import Timing, measure

from .case import Case, Source
from .command import ANOTHER, FLOATS, MULTIPLIED, OURS, PEER, READ, SATURATED
from .exact_weights import with_unsigned_weights

#: Bytes that the caches of a core do not hold.
_BEYOND_CACHES = 2**28
#: Products of matrices whose sums of pairs do not saturate at 16 bits, on processors without VNNI.
_EXACT = {"session.x64quantprecision": "1"}


class _Reading:
    """The maximum of a number of words, in each call of the next words of memory that no cache of a core holds."""

    def __init__(self, words: int) -> None:
        array = np.ones(_BEYOND_CACHES // 8, np.int64)
        self._parts = [array[at : at + words] for at in range(0, len(array) - words + 1, words)]
        self._number = 0

    def __call__(self) -> object:
        self._number = (self._number + 1) % len(self._parts)
        return self._parts[self._number].max()


def machine() -> dict[str, Any]:
    """The state of the machine."""
    return dict(machine_state())


def measured(case: Case, rounds: int, threads: int, sample_s: float) -> dict[str, Any]:
    """A line of the table; a sample has at least ``sample_s`` seconds.

    Raises AssertionError for results that differ by more than the case allows.
    """
    runs: dict[str, Callable[[], Any]] = {}
    runs[OURS], first = _ours(case.narrow, case.inputs, case.config)
    runs[FLOATS], wanted = _ours(case.real, case.real_inputs, {})
    if case.peer:
        assert isinstance(case.narrow, bytes)
        runs[PEER], wanted = _theirs(with_unsigned_weights(case.narrow), case.inputs, threads, _EXACT)
        usual, taken = _theirs(case.narrow, case.inputs, threads)
        saturated = _difference(taken, wanted)
        runs[SATURATED if saturated and not _adds_exactly() else PEER] = usual
        assert first.dtype == wanted.dtype
    other = _another(case.narrow, case.inputs, threads) if isinstance(case.narrow, bytes) else None
    if other is not None:
        runs[ANOTHER] = other
    if case.stored:
        runs[READ] = _Reading(case.stored // 8)
    if case.products:
        runs[MULTIPLIED] = functools.partial(multiply_add, case.products)
    differs = _difference(first, wanted)
    assert differs <= case.error, f"{case.name}: results differ by {differs}, {case.error} are allowed"
    # of several threads some wait, and take processor time meanwhile
    found = measure(runs, rounds, sample_s, clock=time.process_time if threads == 1 else time.perf_counter)
    ratios = {name: found[OURS].ratio(timing) for name, timing in found.items() if name != OURS}
    return {
        "case": case.name,
        "us": {name: _plain(timing) for name, timing in found.items()},
        "of": {name: round(ratio, 3) for name, ratio in ratios.items()},
        "differs": differs,
        **({"saturated": saturated} if SATURATED in runs else {}),
    }


def _adds_exactly() -> bool:
    """Whether the CPU has an instruction that adds products of bytes at 32 bits."""
    return bool(host.multiplies_bytes(vector_registers.registers()[1] // 4))


def _plain(timing: Timing) -> dict[str, float]:
    spans = {"median": timing.median_ns, "min": timing.min_ns, "max": timing.max_ns}
    return {name: round(ns / 1e3, 2) for name, ns in spans.items()}


def _difference(one: np.ndarray, other: np.ndarray) -> float:
    """The largest difference of two results, in parts of the largest magnitude of the second."""
    assert one.shape == other.shape
    a, b = one.astype(np.float64), other.astype(np.float64)
    return float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), 1e-30))


def _ours(source: Source, inputs: Mapping[str, np.ndarray], config: Mapping[str, Any]) -> tuple[Callable[[], Any], np.ndarray]:
    """A run of a program by relayvm, and its first result."""
    mod, params = relay.frontend.from_onnx(source) if isinstance(source, bytes) else (source, {})
    vm = relay.VirtualMachine(relay.compile(mod, params=params, **config))
    given = [*inputs.values()]
    result = vm.run(*given)
    return lambda: vm.run(*given), np.array((result[0] if isinstance(result, tuple) else result).numpy())


def _theirs(
    source: bytes, inputs: Mapping[str, np.ndarray], threads: int, entries: Mapping[str, str] | None = None
) -> tuple[Callable[[], Any], np.ndarray]:
    """A run of a model by onnxruntime, its inputs and its results bound, and its first result.

    ``entries``: of the configuration of the session.
    """
    options = onnxruntime.SessionOptions()
    for name, value in (entries or {}).items():
        options.add_session_config_entry(name, value)
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    binding, values = session.io_binding(), session.run(None, dict(inputs))
    for name, value in inputs.items():
        binding.bind_cpu_input(name, value)
    held = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in values]
    for result, value in zip(session.get_outputs(), held, strict=True):
        binding.bind_ortvalue_output(result.name, value)
    return lambda: session.run_with_iobinding(binding), np.array(values[0])


def _another(source: bytes, inputs: Mapping[str, np.ndarray], threads: int) -> Callable[[], Any] | None:
    """A run of a model by OpenVINO; None where it is not installed, or does not take the model or the dtype of an input."""
    if importlib.util.find_spec("openvino") is None:
        return None
    import openvino

    core = openvino.Core()
    try:
        model = core.compile_model(core.read_model(source, b""), "CPU", {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": 1})
        request = model.create_infer_request()
        request.infer(dict(inputs))
    except (RuntimeError, TypeError):
        return None
    return lambda: request.infer(dict(inputs))
