"""Variants of the suite's cases: declared sizes become symbols, stored values become inputs, free sizes take other values."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import RuntimeImplementationError

from .cases import Case, difference

#: An axis of an input: the numbers of both.
Axis = tuple[int, int]


def symbolic(case: Case) -> Case:
    """The case with every declared size of its inputs and outputs, and of the values between them, a symbol of its own."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    numbers = count()
    for info in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        for tensor in _tensor_types(info.type):
            for size in tensor.shape.dim:
                size.dim_param = f"d{next(numbers)}"
    return replace(case, model=model)


def _tensor_types(declared: Any) -> Iterator[Any]:
    """The types of tensors in a TypeProto."""
    match declared.WhichOneof("value"):
        case "tensor_type":
            yield declared.tensor_type
        case "sequence_type":
            yield from _tensor_types(declared.sequence_type.elem_type)
        case "optional_type":
            yield from _tensor_types(declared.optional_type.elem_type)


def stored_as_inputs(case: Case) -> Case | None:
    """The case with the tensors that the graph stores, and the values of its Constant nodes, as inputs; None if it has none."""
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    graph, values = model.graph, []
    declared = {i.name for i in graph.input}
    for tensor in graph.initializer:
        if tensor.name not in declared:
            values.append((tensor.name, numpy_helper.to_array(tensor)))
    kept = []
    for node in graph.node:
        array = _constant(node)
        if array is None:
            kept.append(node)
        else:
            values.append((node.output[0], array))
    # an initialiser that is declared as an input already needs its value at that place: such models are old, and left alone
    if not values or any(t.name in declared for t in graph.initializer):
        return None
    del graph.initializer[:], graph.node[:]
    graph.node.extend(kept)
    for name, array in values:
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(name, kind, array.shape))
    given = tuple(array for _, array in values)
    return replace(case, model=model, data_sets=[((*inputs, *given), want) for inputs, want in case.data_sets])


def _constant(node: Any) -> np.ndarray | None:
    """The value of a Constant node, if it is a tensor of numbers."""
    if node.op_type != "Constant" or node.domain:
        return None
    value = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    if "value" in value:
        return None if value["value"].data_type == onnx.TensorProto.STRING else numpy_helper.to_array(value["value"])
    for name, dtype in (("value_float", "float32"), ("value_floats", "float32"), ("value_int", "int64"), ("value_ints", "int64")):
        if name in value:
            return np.array(value[name], dtype)
    return None


@dataclass(frozen=True)
class Resized:
    """A case at another size, ``test[x.0=y.0=size]``.  ``failure``: the message of the reference if it fails at this size."""

    case: Case
    failure: str = ""


def resized(case: Case) -> Iterator[Resized]:
    """The case at three further sizes of each group of axes that may change, with the reference's results; all have one model.

    A group may change if ONNX's shape inference and the reference accept two elements more, and the ranks of results stay.
    """
    inputs, want = case.data_sets[0]
    if not all(isinstance(a, np.ndarray) and a.dtype != object for a in inputs):
        return
    try:
        reference = ReferenceEvaluator(case.model)
    except RuntimeImplementationError:
        return  # the reference has not the operator
    if isinstance(have := _evaluate(reference, inputs), str) or difference(have, want, case.rtol, max(case.atol, 1e-6)):
        return
    model = symbolic(case).model
    accepted = {}
    for axes in groups([a.shape for a in inputs]):
        size = inputs[axes[0][0]].shape[axes[0][1]]
        runs = {n: _at_size(case, reference, axes, n) for n in [*sorted({0, 1, 2} - {size})[:2], size + 2]}
        if isinstance(runs[size + 2], tuple):
            accepted[axes] = runs
    for axes, runs in accepted.items():
        if any(_spans_more(other, axes) for other in accepted):
            continue  # the reference does not check whether sizes agree
        names = "=".join(f"{case.model.graph.input[k].name}.{axis}" for k, axis in axes)
        for n, run in runs.items():
            at = replace(case, name=f"{case.name}[{names}={n}]", model=model, data_sets=[])
            yield Resized(at, run) if isinstance(run, str) else Resized(replace(at, data_sets=[run]))


def _spans_more(group: Sequence[Axis], part: Sequence[Axis]) -> bool:
    """Whether a group contains another one, and axes of more inputs."""
    return set(part) < set(group) and len({k for k, _ in part}) < len({k for k, _ in group})


def _at_size(case: Case, reference: ReferenceEvaluator, axes: Sequence[Axis], size: int) -> tuple[Any, Any] | str:
    """The inputs at a size of a group of axes, and the reference's results; or the reason that there are none."""
    inputs, want = case.data_sets[0]
    arrays = [_with_sizes(a, k, axes, size) for k, a in enumerate(inputs)]
    found = _inferred(case.model, arrays) or _evaluate(reference, arrays)
    if isinstance(found, str):
        return found
    ranks = [np.ndim(f) for f in found]
    return (arrays, found) if ranks == [np.ndim(w) for w in want] else f"other ranks: {ranks}"


def _inferred(model: Any, arrays: Sequence[np.ndarray]) -> str:
    """The complaint of ONNX's shape inference about inputs of these sizes; "" if it has none."""
    changed = onnx.ModelProto.FromString(model.SerializeToString())
    for info, array in zip(changed.graph.input, arrays, strict=True):
        for declared, size in zip(info.type.tensor_type.shape.dim, array.shape, strict=True):
            declared.dim_value = size
    for info in changed.graph.output:
        for tensor in _tensor_types(info.type):
            tensor.ClearField("shape")
    del changed.graph.value_info[:]
    try:
        onnx.shape_inference.infer_shapes(changed, check_type=True, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        return f"shape inference: {error}"
    return ""


def groups(shapes: Sequence[tuple[int, ...]]) -> list[tuple[Axis, ...]]:
    """The sets of axes with equal sizes that may belong together: all of a size, those at the same position, each alone."""
    every = [(k, axis) for k, shape in enumerate(shapes) for axis in range(len(shape))]
    by_size: dict[Any, list[Axis]] = {}
    for k, axis in every:
        size = shapes[k][axis]
        for key in ((size,), (size, axis), (size, axis - len(shapes[k]), "end")):
            by_size.setdefault(key, []).append((k, axis))
    return list(dict.fromkeys([*map(tuple, by_size.values()), *((e,) for e in every)]))


def _with_sizes(array: np.ndarray, number: int, axes: Iterable[Axis], size: int) -> np.ndarray:
    """The array with other sizes of its axes in a group; elements repeat, floats a little smaller each time."""
    for k, axis in axes:
        if k != number:
            continue
        have = array.shape[axis]
        at = np.arange(size) % max(have, 1)
        array = (
            np.take(array, at, axis=axis)
            if have
            else np.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
        )
        if array.dtype.kind == "f":
            scale = 1 - np.arange(size) // max(have, 1) / 64
            array = (array * scale.reshape([-1 if a == axis else 1 for a in range(array.ndim)])).astype(array.dtype)
    return array


def _evaluate(reference: ReferenceEvaluator, inputs: Sequence[np.ndarray]) -> list[Any] | str:
    """The reference's results, or its message."""
    names = [n for n in reference.input_names if n]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return list(reference.run(None, dict(zip(names, inputs, strict=True))))
    except Exception as error:  # the reference is Python code, and fails with anything
        return f"{type(error).__name__}: {error}"


def once(prepare: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The function, which is not called again for the model of the last call."""
    last: list[Any] = [None, None]

    def prepared(model: Any) -> Any:
        if last[0] is not model:
            last[:] = [model, prepare(model)]
        return last[1]

    return prepared
