"""Nearest resizes by a whole scale repeat elements; no index is computed for them."""

from __future__ import annotations

from itertools import product

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import relayvm as relay

#: The coordinates whose positions in a run of repeated elements are the same at every size, and coordinates that are not.
PERIODIC = ("asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")
COORDINATES = (*PERIODIC, "align_corners")
ROUNDINGS = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
SCALES = (2.0, 3.0, 4.0, 8.0, 1.5)
LENGTHS = (1, 2, 3, 7)


def _model(coordinates: str, rounding: str, scale: float) -> onnx.ModelProto:
    node = helper.make_node(
        "Resize", ["x", "", "scales"], ["y"], mode="nearest", coordinate_transformation_mode=coordinates, nearest_mode=rounding
    )
    info = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "w"])
    scales = helper.make_tensor("scales", TensorProto.FLOAT, [2], [1.0, scale])
    graph = helper.make_graph([node], "g", [info], [onnx.ValueInfoProto(name="y")], [scales])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])


def _row(length: int) -> np.ndarray:
    return np.arange(2 * length, dtype="float32").reshape(2, length)


def test_resizes_that_repeat_elements_compute_no_index() -> None:
    """The import writes ``repeat`` exactly where the reference repeats elements at every length, for periodic coordinates."""
    repeated = set()
    for coordinates, rounding, scale in product(COORDINATES, ROUNDINGS, SCALES):
        model = _model(coordinates, rounding, scale)
        wanted = [ReferenceEvaluator(model).run(None, {"x": _row(n)})[0] for n in LENGTHS]
        repeats = all(np.array_equal(w, np.repeat(_row(n), int(scale), 1)) for w, n in zip(wanted, LENGTHS, strict=True))
        text = str(relay.frontend.from_onnx(model)[0])
        repeats = repeats and coordinates in PERIODIC
        assert (" repeat(%x," in text, " take(%x," in text) == (repeats, not repeats), (coordinates, rounding, scale)
        if repeats:
            repeated.add((coordinates, rounding))
    assert ("asymmetric", "floor") in repeated and ("half_pixel", "round_prefer_floor") in repeated


def test_values_of_a_repeating_resize_at_every_length() -> None:
    mod, params = relay.frontend.from_onnx(_model("asymmetric", "floor", 3.0))
    vm = relay.VirtualMachine(relay.compile(mod, params=params))
    for length in (0, *LENGTHS):
        np.testing.assert_array_equal(vm.run(_row(length)).numpy(), np.repeat(_row(length), 3, 1))
