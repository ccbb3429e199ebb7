"""``relay.generation.loop``: the machine that writes texts with a step of a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...vm.device_table import DEVICES
from ...vm.diagnostics.argument_errors import a_count
from ..compile import compile
from ..inputs.model_files import is_model_file
from ..ir.expr import IRModule
from ..lowered import as_module, bind_params
from ..onnx_frontend.importing.from_onnx import step_of_model
from ..torch_frontend.importing.from_torch import step_of_program
from .decoder_step import decoder_step
from .loop_text import program
from .text_writer import TextWriter


def loop(
    step: Any,
    params: Mapping[str, Any] | None = None,
    *,
    caches: Mapping[str, str] | None = None,
    tokens: str | None = None,
    mask: str | None = None,
    positions: str | None = None,
    logits: str | None = None,
    top_k: int = 0,
    target: str = DEVICES[0],
    **config: Any,
) -> TextWriter:
    """The machine that writes texts with ``step``: the loop, the choice of tokens and the caches are in its program.

    ``step``: a decoder's step with past and present, as ``relay.compile`` takes a program: a model of ONNX (its path, or a
    ModelProto), an ExportedProgram of torch, or a module.  ``params``: values of parameters of ``main`` by name.

    Its parameters are tokens, ``[batch, positions]``, and caches, and may be a mask of the past and new positions and the numbers
    of new positions; its results are logits, ``[batch, positions, tokens]``, and the caches with new positions.  They are found
    by the names of exporters: ``input_ids``, ``attention_mask``, ``position_ids``, ``past_key_values.0.key`` and
    ``present.0.key``, ``logits``.  Other names are given by ``tokens``, ``mask``, ``positions`` and ``logits``; ``caches`` has
    the results by the parameters that they follow.  Results without names are numbered: ``"0"``.

    ``top_k``: the most tokens that a draw chooses from; 0: the program writes the most likely tokens.  ``target``, ``config``:
    as of ``relay.compile``.

    Raises ArgumentError for a step of another form, and as ``relay.compile``.
    """
    candidates = a_count(top_k, "loop: top_k")
    module = _module(step)
    found = decoder_step(bind_params(module, params or {}), caches, tokens, mask, positions, logits)
    return TextWriter(compile(program(found, candidates), target, **config), found.type(found.tokens).dtype, candidates)


def _module(step: Any) -> IRModule:
    """The module of a step; texts in the caches of a model of ONNX end in one column."""
    kind = type(step).__module__.partition(".")[0], type(step).__name__
    if is_model_file(step) or kind == ("onnx", "ModelProto"):
        return step_of_model(step)
    return step_of_program(step) if kind == ("torch", "ExportedProgram") else as_module(step, "loop")
