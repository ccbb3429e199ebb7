"""Stored tensors that a model lists among its inputs: defaults, which a call may replace."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ...vm.api.argument_errors import wrong
from .model import Model

#: The first version of the format in which a stored tensor need not be an input, so that an input says something.
_FIRST = 4
#: The most elements of all such tensors together: thresholds and the like, not the weights of a network.
MOST_ELEMENTS = 64


def default_inputs(model: Model, wanted: bool | Sequence[str] | None) -> tuple[str, ...]:
    """The names of the stored tensors that become defaults; ``wanted`` as of ``from_onnx``.  Raises ArgumentError."""
    graph = model.proto.graph
    sizes = {t.name: math.prod(t.dims) for t in graph.initializer}
    sizes |= {s.values.name: math.prod(s.dims) for s in graph.sparse_initializer}
    listed = tuple(info.name for info in graph.input if info.name in sizes)
    if isinstance(wanted, bool):
        return listed if wanted else ()
    if wanted is None:
        small = sum(sizes[name] for name in listed) <= MOST_ELEMENTS
        return listed if small and model.proto.ir_version >= _FIRST else ()
    unknown: list[Any] = [name for name in wanted if name not in listed]
    if unknown:
        help = f"the model lists these among its inputs: {', '.join(listed) or 'none'}"
        raise wrong("from_onnx: overridable", "names of stored tensors that are inputs, too", unknown[0], help)
    return tuple(name for name in listed if name in wanted)
