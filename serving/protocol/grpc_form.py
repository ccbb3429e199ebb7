"""Requests and answers of the gRPC transport."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .datatypes import CONTENTS, DATATYPE, little_endian
from .limits import Limits
from .messages import message
from .refusals import RequestError
from .requests import InferRequest, Inputs, Wanted, from_bytes, from_numbers, timeout_of, wanted_outputs
from .served_model import ServedModel, TensorSpec


def decode(model: ServedModel, request: Any, limits: Limits) -> InferRequest:
    """The request in a ``ModelInferRequest``.

    Raises RequestError for another message, InputError for tensors that do not fit the model.
    """
    inputs, raw = Inputs(model, limits), request.raw_input_contents
    if raw and len(raw) != len(request.inputs):
        raise RequestError(f"{len(raw)} raw contents for {len(request.inputs)} inputs")
    for i, entry in enumerate(request.inputs):
        shape = list(entry.shape)
        spec = inputs.admit(entry.name, entry.datatype, shape)
        if raw and entry.HasField("contents"):
            raise RequestError(f"the input {spec.name} has raw and typed contents")
        if raw:
            array = from_bytes(spec, shape, raw[i])
        else:  # a field of floats holds NaN and infinities
            array = from_numbers(spec, shape, _typed(spec, shape, entry.contents), finite=False)
        inputs.add(spec.name, array)
    is_raw = bool(raw) or not request.inputs
    wanted = wanted_outputs(model, [(entry.name, is_raw) for entry in request.outputs], is_raw)
    if any(CONTENTS[w.spec.type.dtype] is None for w in wanted):  # an answer has one form
        wanted = tuple(Wanted(w.spec, w.number, True) for w in wanted)
    return InferRequest(request.id, inputs.arguments(), wanted, timeout_of(parameters_of(request.parameters)))


def _typed(spec: TensorSpec, shape: Sequence[int], contents: Any) -> list[Any]:
    """The elements in the field of the input's dtype.  Raises RequestError for another field."""
    wanted = CONTENTS[spec.type.dtype]
    given = [field.name for field, _ in contents.ListFields()]
    if wanted is None or any(name != wanted for name in given):
        help = f"give {wanted}" if wanted else "give raw contents"
        raise RequestError(
            f"the input {spec.name} is {DATATYPE[spec.type.dtype]} and has {', '.join(given) or 'no contents'}", help=help
        )
    return list(getattr(contents, wanted))


def metadata(data: Mapping[str, Any]) -> Any:
    """The ``ModelMetadataResponse`` of a model's description."""

    def tensor(spec: Mapping[str, Any]) -> dict[str, Any]:
        values = spec["parameters"].items()
        fields = {name: {"bool_param" if isinstance(value, bool) else "string_param": value} for name, value in values}
        return {**spec, "parameters": fields}

    tensors = {name: list(map(tensor, data[name])) for name in ("inputs", "outputs")}
    return message("ModelMetadataResponse")(**{**data, **tensors})


def parameters_of(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a message by name."""
    chosen = {name: value.WhichOneof("parameter_choice") for name, value in parameters.items()}
    return {name: getattr(parameters[name], choice) for name, choice in chosen.items() if choice}


def encode(model: ServedModel, request_id: str, wanted: Sequence[Wanted], arrays: Sequence[np.ndarray]) -> Any:
    """The ``ModelInferResponse`` with the wanted outputs."""
    answer = message("ModelInferResponse")(model_name=model.name, model_version=model.version, id=request_id)
    for each in wanted:
        array, dtype = arrays[each.number], each.spec.type.dtype
        entry = answer.outputs.add(name=each.spec.name, datatype=DATATYPE[dtype], shape=array.shape)
        field = CONTENTS[dtype]
        if each.binary or field is None:
            answer.raw_output_contents.append(array.astype(little_endian(dtype), copy=False).tobytes())
        else:
            getattr(entry.contents, field).extend(array.ravel().tolist())
    return answer
