"""``torch.compile(model, backend="relayvm")``: graphs of torch's, compiled once for all sizes that torch's guards allow."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..importing.decompositions import KEPT
from ..torch_package import torch_package
from .compiled_graph import CompiledGraph
from .partitions import partitioned


class BackendWarning(UserWarning):
    """A part of a model that stays in torch."""


def backend(module: Any, inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, **others: Any) -> Callable[..., Any]:
    """The function that computes a graph of dynamo's: the backend ``relayvm`` of ``torch.compile``.

    ``inputs``: example inputs, of which parameters and buffers are the model's own.  ``options``: keys of the configuration, such
    as ``{"opt_level": 3}``.  Inference only: a graph that needs gradients stays in torch, with a BackendWarning.  Operators
    without a converter stay in torch, too, and are named once.  Raises ConfigError for wrong options.
    """
    from torch._dynamo.backends.common import aot_autograd

    settings = dict(options or {})

    def inference(graph: Any, fakes: Sequence[Any]) -> Any:
        return _boxed(compiled(graph, _own(graph, inputs), settings))

    def training(graph: Any, fakes: Sequence[Any]) -> Any:
        warnings.warn(
            "the backend relayvm computes no gradients: torch runs this graph; call the model under torch.no_grad() or "
            "torch.inference_mode()", BackendWarning, stacklevel=2,
        )  # fmt: skip
        return _boxed(graph.forward)

    make = aot_autograd(fw_compiler=training, inference_compiler=inference, decompositions=_decompositions())
    made: Callable[..., Any] = make(module, inputs)
    return made


def compiled(graph: Any, own: Mapping[int, Any], settings: Mapping[str, Any]) -> Callable[..., Any]:
    """The function of an ATen graph.  ``own``: the model's tensors, by the position of their input."""
    whole, missing = partitioned(graph, settings)
    if not missing:
        return CompiledGraph(graph, own, settings)
    listed = ", ".join(f"{name} ({count} {'call' if count == 1 else 'calls'})" for name, count in sorted(missing.items()))
    warnings.warn(f"the backend relayvm has no converter for {listed}: torch runs them", BackendWarning, stacklevel=2)
    function: Callable[..., Any] = whole.forward
    return function


def _own(graph: Any, inputs: Sequence[Any]) -> dict[int, Any]:
    """The model's parameters and buffers that an ATen graph reads and does not write, by the position of their input."""
    from torch._guards import TracingContext
    from torch._subclasses import FakeTensor

    torch, found = torch_package(), {}
    context = TracingContext.try_get()
    facts = getattr(context, "fw_metadata", None)
    written = set(facts.mutated_inp_runtime_indices) if facts is not None else set()
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    for position, node in enumerate(placeholders):
        index = getattr(node.meta.get("desc"), "idx", None)
        given = inputs[index] if isinstance(index, int) and index < len(inputs) else None
        is_own = isinstance(given, torch.nn.Parameter) or hasattr(given, "_dynamo_static_input_type")
        if is_own and index not in written and not isinstance(given, FakeTensor):
            found[position] = given
    return found


def _decompositions() -> dict[Any, Any]:
    """torch's core decompositions, without those of operators that are one kernel here."""
    torch = torch_package()
    table = dict(torch.export.default_decompositions())
    for name in (*KEPT, "_scaled_dot_product_flash_attention_for_cpu.default"):
        packet, _, overload = name.partition(".")
        table.pop(getattr(getattr(torch.ops.aten, packet, None), overload, None), None)
    return table


def _boxed(function: Callable[..., Any]) -> Any:
    from torch._functorch.aot_autograd import make_boxed_func

    return make_boxed_func(function)
