"""Run groups of fusable operators on the emulated GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from relayvm.ops.codegen.cuda import cuda_source
from relayvm.ops.core.group import Group
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.ops.core.type_relation import shape_program

from ...emulator.session import Session
from ..fused.run_group import one_call
from .on_gpu import _Steps

#: Elements before a tensor, where it shall not be aligned.
_AWAY = 1


def evaluate(group: Group, arrays: Sequence[Any], *, aligned: bool = True) -> tuple[int, list[np.ndarray]]:
    """The status of the group's kernels and their results.  Unless ``aligned``, no tensor's address is a multiple of 16."""
    inputs = [np.ascontiguousarray(x).reshape(x.shape) for x in arrays]
    shapes = shape_program(group).program.run(inputs)
    dtypes = [numpy_dtype(group.values()[r].dtype) for r in group.results]
    away = 0 if aligned else _AWAY
    with Session() as gpu:
        tensors = [gpu.put(np.concatenate([x.reshape(-1)[:away], x.reshape(-1)])) + _skipped(x, away) for x in inputs]
        results = [
            gpu.allocate(max(1, (int(np.prod(s)) + away) * d.itemsize)) + away * d.itemsize
            for s, d in zip(shapes, dtypes, strict=True)
        ]
        counts = gpu.put(np.full(1, -1, np.int64))  # of an operator with an upper bound
        dims = [*(t.shape for t in group.params), *(group.values()[r].shape for r in group.results)]
        sizes = [*(x.shape for x in inputs), *shapes]
        status = _Steps(gpu, cuda_source(group), [*tensors, *results, counts], dims, sizes).run()
        return status, [gpu.get(a, s, d) for a, s, d in zip(results, shapes, dtypes, strict=True)]


def _skipped(x: np.ndarray, away: int) -> int:
    return x.reshape(-1)[:away].nbytes


def call(op: str, arrays: Sequence[Any], attrs: Any = None, static: bool = False, aligned: bool = True) -> Any:
    """The result of one call (a list for several).  Fails if a kernel reports a status."""
    flat = [x for a in arrays for x in (a if isinstance(a, tuple) else (a,))]
    status, outputs = evaluate(one_call(op, arrays, attrs, static), flat, aligned=aligned)
    assert status == 0, status
    return outputs if len(outputs) > 1 else outputs[0]
