"""The outcomes of samples: exported with open sizes, imported, run, and compared with torch.

An export takes torch most of a second, whatever it exports: samples are exported together, and in halves where that fails.
"""

from __future__ import annotations

import contextlib
import functools
import signal
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch._export.utils as _export_utils
from torch.utils._pytree import tree_leaves

import relayvm as relay
from relayvm.compiler.torch_frontend.importing.program import as_array

from .samples import Calls, Sample

#: The outcomes: right, different values, operators without a converter, a program that is refused, another error, a time limit,
#: and a sample that torch itself does not export or compute.
OUTCOMES = ("passed", "wrong", "unsupported", "refused", "error", "slow", "not exported")
#: ``rtol`` and ``atol`` of results, by dtype.
TOLERANCES = {"float32": (1e-4, 1e-5), "float64": (1e-4, 1e-5), "float16": (1e-2, 1e-3), "bfloat16": (3e-2, 1e-2)}
#: Operators whose elements torch leaves without a value: shapes and dtypes are compared.
WITHOUT_VALUES = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
#: Seconds for a sample.
LIMIT = 120


@dataclass(frozen=True)
class Outcome:
    """The end of a sample: one of OUTCOMES, and why.  ``is_open``: whether torch has exported it with open sizes."""

    kind: str
    reason: str = ""
    is_open: bool = True


# each export looks through the operators of every namespace anew, which takes half of its time
_export_utils._collect_all_valid_cia_ops_for_namespace = functools.cache(_export_utils._collect_all_valid_cia_ops_for_namespace)


class _Late(Exception):
    pass


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def late(*_: Any) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcomes(samples: Sequence[Sample]) -> list[Outcome]:
    """The outcome of each sample."""
    if not samples:
        return []
    with warnings.catch_warnings(), _limited():
        warnings.simplefilter("ignore")
        try:
            found = _outcomes(samples)
        except _Late:
            found = [Outcome("slow", f"more than {LIMIT} s")]
    if len(samples) == 1 or all(end.kind == "passed" for end in found):
        return found
    half = len(samples) // 2
    return [*outcomes(samples[:half]), *outcomes(samples[half:])]


def _outcomes(samples: Sequence[Sample]) -> list[Outcome]:
    """The outcome of each sample if all are exported with open sizes; otherwise only that of one sample is right."""
    calls = Calls([sample.call for sample in samples])
    try:
        wanted = calls(*calls.tensors)
        program, is_open = _exported(calls)
    except _Late:
        raise
    except Exception as error:  # torch's errors are of many classes
        return [Outcome("not exported", _first_line(error))]
    try:
        found = _run(program, calls)
    except _Late:
        raise
    except relay.RelayError as error:
        kinds = {"model/operator": "unsupported"}
        kind = kinds.get(error.code, "refused" if error.code.startswith("model/") else "error")
        return [Outcome(kind, f"{error.code}: {error.diagnostics[0].message}", is_open)]
    except Exception as error:  # the runner lists what is wrong with all samples
        return [Outcome("error", f"{type(error).__name__}: {_first_line(error)}", is_open)]
    return list(_compared(samples, found, wanted, is_open))


def _compared(samples: Sequence[Sample], found: list[np.ndarray], wanted: list[Any], is_open: bool) -> Iterator[Outcome]:
    for sample, result in zip(samples, wanted, strict=True):
        leaves = [leaf for leaf in tree_leaves(result) if leaf is not None]
        ours, found = found[: len(leaves)], found[len(leaves) :]
        difference = _difference(ours, leaves, sample.operator in WITHOUT_VALUES)
        yield Outcome("wrong", difference, is_open) if difference else Outcome("passed", "", is_open)
    assert not found, "the program has more results than the module"


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def _exported(calls: Calls) -> tuple[Any, bool]:
    """The program with sizes as open as torch finds them; of one call, if there is none, with the sizes of the sample."""
    shapes = (tuple(dict.fromkeys(range(x.dim()), torch.export.Dim.AUTO) for x in calls.tensors),)
    try:
        return torch.export.export(calls, calls.tensors, dynamic_shapes=shapes, strict=False), True
    except Exception:  # torch's errors are of many classes
        if len(calls.calls) > 1 or not any(x.dim() for x in calls.tensors):
            raise
        return torch.export.export(calls, calls.tensors, strict=False), False


def _run(program: Any, calls: Calls) -> list[np.ndarray]:
    machine = relay.VirtualMachine(relay.compile(relay.frontend.from_torch(program)[0]))
    found = machine.run(*map(as_array, calls.tensors))
    return [x.numpy() for x in (found if isinstance(found, (list, tuple)) else [found])]


def _difference(found: list[np.ndarray], wanted: list[Any], only_types: bool) -> str:
    """The first difference; "" if there is none."""
    if len(found) != len(wanted):
        return f"{len(found)} results instead of {len(wanted)}"
    for k, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        theirs = as_array(theirs if isinstance(theirs, torch.Tensor) else torch.tensor(theirs))
        if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
            return f"result {k} is {ours.dtype}{ours.shape} instead of {theirs.dtype}{theirs.shape}"
        if only_types:
            continue
        rtol, atol = TOLERANCES.get(ours.dtype.name, (0.0, 0.0))
        a, b = (x.astype(np.float64) if ours.dtype.name in TOLERANCES else x for x in (ours, theirs))
        with np.errstate(all="ignore"):
            close = np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
        if not close.all():
            at = tuple(int(i) for i in np.argwhere(~close)[0])
            return f"result {k} at {at}: {a[at]} instead of {b[at]} ({int((~close).sum())} of {close.size})"
    return ""
