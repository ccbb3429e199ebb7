"""Rules of the standard that a model's numbers show only at their edges: factors of 0, sums of halves, no rows, negative pads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import relayvm as relay

NAN, INF = float("nan"), float("inf")


def model_of_node(
    op: str,
    inputs: Mapping[str, tuple[Any, Sequence[Any]]],
    outputs: Mapping[str, Any],
    *,
    stored: Mapping[str, Any] | None = None,
    version: int = 17,
    domain: str = "",
    **attributes: Any,
) -> onnx.ModelProto:
    """A model of one node: dtype and sizes of each input, the dtype of each output."""

    def declared(name: str, dtype: Any, sizes: Sequence[Any] | None) -> Any:
        return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), sizes)

    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in (stored or {}).items()]
    node = helper.make_node(op, [*inputs, *(stored or {})], list(outputs), domain=domain, **attributes)
    infos = [declared(name, *ty) for name, ty in inputs.items()]
    graph = helper.make_graph([node], "g", infos, [declared(name, dtype, None) for name, dtype in outputs.items()], tensors)
    imports = [helper.make_opsetid("", version), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def machine_of(model: onnx.ModelProto) -> relay.VirtualMachine:
    module, params = relay.frontend.from_onnx(model)
    return relay.VirtualMachine(relay.compile(module, params=params))


def results(model: onnx.ModelProto, **feeds: Any) -> list[np.ndarray]:
    found = machine_of(model).run(**feeds)
    return [v.numpy() for v in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize(("version", "dtype"), [(7, "float32"), (10, "bool"), (11, "bool"), (12, "bool"), (13, "bool")])
def test_the_mask_of_a_dropout_is_bool_from_version_10_on(version: int, dtype: str) -> None:
    model = model_of_node("Dropout", {"x": ("float32", ["n"])}, {"y": "float32", "mask": dtype}, version=version)
    y, mask = results(model, x=np.array([2, 3], "float32"))
    assert y.tolist() == [2, 3] and mask.dtype == dtype and mask.tolist() == [True, True]


GEMM = {"a": ("float32", ["n", 2]), "b": ("float32", [2, 3]), "c": ("float32", [3])}


@pytest.mark.parametrize(("op", "domain"), [("Gemm", ""), ("FusedGemm", "com.microsoft")])
def test_a_factor_of_0_does_not_read_the_sum_s_other_operand(op: str, domain: str) -> None:
    model = model_of_node(op, GEMM, {"y": "float32"}, beta=0.0, domain=domain)
    c = np.array([NAN, 1, INF], "float32")
    (y,) = results(model, a=np.ones((1, 2), "float32"), b=np.ones((2, 3), "float32"), c=c)
    assert y.tolist() == [[2, 2, 2]]


# ---- reductions --------------------------------------------------------------------------------------------------------------

#: Data of halves whose sums, or sums of squares, no half holds, and the results in halves.
HALVES = [
    ("ReduceL1", [300, -300, 2048, 1], 2648), ("ReduceL2", [300, 300], 424.25), ("ReduceLogSum", [6e4, 6e4], 11.695),
    ("ReduceLogSumExp", [0] * 5000, 8.5172), ("ReduceMean", [6e4, 6e4, 3e4], 5e4), ("ReduceSum", [2048] + [1] * 64, 2112),
    ("ReduceSumSquare", [1 / 256] * 4096, 0.0625), ("ReduceProd", [6e4, 6e4, 1 / 4096, 1 / 4096], 214.6),
]  # fmt: skip


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "run_time"])
@pytest.mark.parametrize(("op", "data", "wanted"), HALVES, ids=[h[0] for h in HALVES])
@pytest.mark.extensive(op=["ReduceL1", "ReduceLogSum", "ReduceLogSumExp", "ReduceSum", "ReduceSumSquare", "ReduceProd"])
def test_reductions_of_halves_add_in_float32(op: str, data: list[float], wanted: float, is_known: bool) -> None:
    x: dict[str, Any] = {"x": ("float16", ["n", "m"])}
    feeds: dict[str, Any] = {"x": np.array([data, data], "float16")}
    if is_known:
        model = model_of_node(op, x, {"y": "float16"}, stored={"axes": np.array([1])}, version=18, keepdims=0)
    else:
        model = model_of_node(op, {**x, "axes": ("int64", [1])}, {"y": "float16"}, version=18, keepdims=0)
        feeds["axes"] = np.array([1])
    np.testing.assert_allclose(results(model, **feeds)[0], np.array([wanted, wanted], "float16"), rtol=1e-3)


@pytest.mark.parametrize(
    ("op", "shape", "wanted", "attributes"),
    [("LpNormalization", (2,), 0.7071, {"axis": 0}), ("GlobalLpPool", (1, 1, 2), 424.25, {}),
     ("LpPool", (1, 1, 2), 424.25, {"kernel_shape": [2]})],
)  # fmt: skip
@pytest.mark.extensive(op=["LpPool"])
def test_norms_of_halves_add_in_float32(op: str, shape: tuple[int, ...], wanted: float, attributes: dict[str, Any]) -> None:
    model = model_of_node(op, {"x": ("float16", ["n" if len(shape) == 1 else n for n in shape])}, {"y": "float16"}, **attributes)
    (y,) = results(model, x=np.full(shape, 300, "float16"))
    assert y.dtype == "float16"
    np.testing.assert_allclose(y.reshape(-1), wanted, rtol=1e-3)


#: The results of integers: those of reals, without their fraction.
INTEGERS = [
    ("ReduceL1", [-1, 2, -5], 8), ("ReduceL2", [1, 2, 3, 5], 6), ("ReduceL2", [30_000, 40_000], 50_000),
    ("ReduceLogSum", [1, 2, 3, 5], 2), ("ReduceLogSumExp", [1000, 1000], 1000), ("ReduceLogSumExp", [1, 2, 3, 5], 5),
    ("ReduceMean", [-1, -2, -2], -1), ("ReduceMean", [2_000_000_000, 2_000_000_000], 2_000_000_000),
    ("ReduceSumSquare", [-3, 4], 25),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize(("op", "data", "wanted"), INTEGERS)
@pytest.mark.extensive(dtype=["int64"], op=["ReduceL1", "ReduceLogSum", "ReduceSumSquare"])
def test_reductions_of_integers_run(op: str, data: list[int], wanted: int, dtype: str) -> None:
    model = model_of_node(op, {"x": (dtype, ["n"])}, {"y": dtype}, version=13, axes=[0], keepdims=0)
    (y,) = results(model, x=np.array(data, dtype))
    assert y.dtype == dtype and y.tolist() == wanted


# ---- no rows -----------------------------------------------------------------------------------------------------------------


def test_a_dynamic_quantisation_of_no_rows_has_the_scale_1() -> None:
    model = model_of_node("DynamicQuantizeLinear", {"x": ("float32", ["n", 2])}, {"q": "uint8", "s": "float32", "z": "uint8"})
    vm = machine_of(model)
    q, s, z = (v.numpy() for v in vm.run(np.zeros((0, 2), "float32")))
    assert q.shape == (0, 2) and (s.tolist(), z.tolist()) == (1, 0)
    q, s, z = (v.numpy() for v in vm.run(np.array([[-1, 254]], "float32")))
    assert (q.tolist(), s.tolist(), z.tolist()) == ([[0, 255]], 1, 1)
    q, s, z = (v.numpy() for v in vm.run(np.zeros((1, 2), "float32")))
    assert (q.tolist(), s.tolist(), z.tolist()) == ([[0, 0]], 1, 0)  # as onnxruntime and the standard's reference


def test_a_dynamically_quantised_product_of_no_rows() -> None:
    stored = {"b": np.ones((2, 3), "uint8"), "scale": np.float32(0.5)}
    model = model_of_node(
        "DynamicQuantizeMatMul", {"x": ("float32", ["n", 2])}, {"y": "float32"}, stored=stored, domain="com.microsoft"
    )
    vm = machine_of(model)
    assert vm.run(np.zeros((0, 2), "float32")).shape == (0, 3)
    np.testing.assert_allclose(vm.run(np.ones((1, 2), "float32")).numpy(), np.ones((1, 3)), rtol=1e-3)


# ---- pads ----------------------------------------------------------------------------------------------------------------------

#: Pads of the axes of a row of 5 elements, in a mode.  Elements are removed first.
PADS = [
    ("constant", [-1, -2], [1, 2]), ("constant", [2, -1], [0, 0, 0, 1, 2, 3]), ("constant", [-5, 0], []),
    ("constant", [-6, 3], [0, 0]), ("constant", [3, -6], [0, 0]), ("constant", [1, 0], [0, 0, 1, 2, 3, 4]),
    ("reflect", [-1, 2], [1, 2, 3, 4, 3, 2]), ("reflect", [1, -4], None), ("edge", [2, -1], [0, 0, 0, 1, 2, 3]),
    ("edge", [-5, 1], None), ("wrap", [-1, 2], [1, 2, 3, 4, 1, 2]), ("wrap", [2, -1], [2, 3, 0, 1, 2, 3]),
    ("constant", [-3, -3], None),
]  # fmt: skip


@pytest.mark.parametrize("form", ["known", "known_size", "run_time"])
@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.extensive(form=["known_size"], mode=["edge"])
def test_negative_pads_remove_elements(mode: str, form: str) -> None:
    # known pads that remove elements from an axis of unknown size are a slice, which has no elements at least
    rows = [(p, w) for m, p, w in PADS if m == mode and (form != "known" or w is not None or max(p) > 0)]
    for pads, wanted in rows:
        x: dict[str, Any] = {"x": ("float32", [5 if form == "known_size" else "n"])}
        stored = {"pads": np.array(pads)} if form != "run_time" else {}
        inputs = x if stored else {**x, "pads": ("int64", [2])}
        model = model_of_node("Pad", inputs, {"y": "float32"}, stored=stored, version=19, mode=mode)
        feeds = {"x": np.arange(5, dtype="float32"), **({} if stored else {"pads": np.array(pads)})}
        if wanted is None:
            with pytest.raises(relay.RelayError):
                results(model, **feeds)
        else:
            assert results(model, **feeds)[0].tolist() == wanted, pads
