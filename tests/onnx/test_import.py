"""Import of models: what becomes of names, sizes, stored tensors and functions, and how wrong models are refused."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import relayvm as relay
from relayvm.compiler.onnx_frontend.importing import from_onnx
from relayvm.compiler.onnx_frontend.importing.reading import read_model
from relayvm.compiler.onnx_frontend.importing.support import UnsupportedOperatorError
from relayvm.ops.native.gc_pause import collection_paused

FLOAT = TensorProto.FLOAT


def model_of(
    nodes: Sequence[Any], inputs: dict[str, Any], outputs: Sequence[str], stored: dict[str, np.ndarray] | None = None, **more: Any
) -> onnx.ModelProto:
    """A model of version 17; a shape of None is an unknown rank."""
    infos = [helper.make_tensor_value_info(n, FLOAT, s) for n, s in inputs.items()]
    tensors = [numpy_helper.from_array(a, n) for n, a in (stored or {}).items()]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=o) for o in outputs], tensors)
    more.setdefault("opset_imports", [helper.make_opsetid("", 17)])
    return helper.make_model(graph, **more)


def refusal(model: Any, **arguments: Any) -> str:
    with pytest.raises(relay.RelayError) as caught:
        relay.frontend.from_onnx(model, **arguments)
    return str(caught.value)


def test_names_sizes_and_weights() -> None:
    w = np.ones(3, "float32")
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"], name="/block/Add")], {"x": ["batch size", 3]}, ["y"], {"w": w})
    mod, params = relay.frontend.from_onnx(model)
    assert "%x: Tensor[(?batch_size, 3), float32]" in mod.astext() and not params
    open_weights, params = relay.frontend.from_onnx(model, freeze_params=False)
    assert [p.name for p in open_weights["main"].params] == ["x", "w"] and (params["w"] == w).all()
    mod, _ = relay.frontend.from_onnx(model, shape={"x": (relay.Any(), 1)}, dtype={"x": "float32"})
    assert "%x: Tensor[(?, 1), float32]" in mod.astext()
    body = mod["main"].body
    assert isinstance(body, relay.Let) and body.value.span is not None
    assert body.value.span.render().splitlines()[2] == "1 | /block/Add: Add(x, w)"


def test_compile_takes_a_model_in_memory() -> None:
    vm = relay.VirtualMachine(relay.compile(model_of([helper.make_node("Neg", ["x"], ["y"])], {"x": ["n"]}, ["y"])))
    assert [vm.run(np.ones(n, "float32")).tolist() for n in (0, 2)] == [[], [-1.0, -1.0]]


def test_a_known_shape_is_a_constant_and_another_is_a_computation() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "two"], ["n"]),
        helper.make_node("Concat", ["minus", "n"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["y"]),
    ]
    stored = {"two": np.array([2]), "minus": np.array([-1])}
    text = relay.frontend.from_onnx(model_of(nodes, {"x": [2, "n", 4]}, ["y"], stored))[0].astext()
    assert "reshape(%x, newshape=[-1, 4])" in text
    text = relay.frontend.from_onnx(model_of(nodes, {"x": [2, 4, "n"]}, ["y"], stored))[0].astext()
    assert "dyn.reshape(%x, %t" in text and 'shape_of(%x, dtype="int64")' in text


def test_a_computed_shape_of_known_sizes_is_an_attribute() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"], start=0, end=2),
        helper.make_node("Concat", ["s", "parts"], ["t"], axis=0),
        helper.make_node("Reshape", ["x", "t"], ["r"]),
    ]
    shape, parts = {"x": ["b", "n", 12]}, {"parts": np.array([3, 4])}
    mod, _ = relay.frontend.from_onnx(model_of(nodes, shape, ["r"], parts))
    assert "reshape(%x, newshape=[0, 0, 3, 4])" in mod.astext()
    # the size of the last axis, which the softmax needs, is known
    opset = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
    heads = helper.make_node("MultiHeadAttention", ["r", "r", "r"], ["y"], num_heads=2, domain="com.microsoft")
    merged = model_of([*nodes, heads], shape, ["y"], {"parts": np.array([12])}, opset_imports=opset)
    assert "newshape=[0, 0, 2, 6]" in relay.frontend.from_onnx(merged)[0].astext()


def test_a_function_of_the_model_and_a_body_of_the_standard_are_inlined() -> None:
    body = [helper.make_node("Mul", ["a", "a"], ["b"]), helper.make_node("HardSwish", ["b"], ["c"])]
    function = helper.make_function("own", "Square", ["a"], ["c"], body, [helper.make_opsetid("", 17)])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    node = helper.make_node("Square", ["x"], ["y"], domain="own")
    mod, _ = relay.frontend.from_onnx(model_of([node], {"x": [4]}, ["y"], functions=[function], opset_imports=imports))
    assert "multiply(%x, %x)" in mod.astext()
    loss = helper.make_node("MeanVarianceNormalization", ["x"], ["y"])
    text = relay.frontend.from_onnx(model_of([loss], {"x": [2, 3, 4, 5]}, ["y"]))[0].astext()
    assert "mean(%x, axis=[0, 2, 3]" in text


def test_all_unsupported_operators_are_one_error() -> None:
    nodes = [helper.make_node("Strange", ["x"], ["a"], name="first", domain="acme"),
             helper.make_node("StringNormalizer", ["a"], ["b"]),
             helper.make_node("Strange", ["b"], ["y"], domain="acme")]  # fmt: skip
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 3)]
    with pytest.raises(UnsupportedOperatorError) as caught:
        relay.frontend.from_onnx(model_of(nodes, {"x": [4]}, ["y"], opset_imports=imports))
    found = [(o.name, o.domain, o.version, o.node, o.count) for o in caught.value.operators]
    assert found == [("Strange", "acme", 3, "first", 2), ("StringNormalizer", "", 17, "b", 1)]
    assert caught.value.code == "model/operator"
    assert "Strange of acme (version 3): 2 nodes, the first is 'first'" in str(caught.value)


def _linear(*more: str, **attributes: Any) -> Any:
    heads = {"q_num_heads": 4, "kv_num_heads": 2, **attributes}
    return helper.make_node("LinearAttention", ["x", "x", "x", "", *more], ["y", "s"], **heads)


@pytest.mark.parametrize(
    ("nodes", "inputs", "message"),
    [
        ([helper.make_node("Add", ["x", "late"], ["y"])], {"x": [1]}, "the value 'late' is used before a node defines it"),
        ([helper.make_node("Relu", ["x"], ["x"])], {"x": [1]}, "the name 'x' is given to two values"),
        ([helper.make_node("Relu", ["x"], ["y"])], {"x": None}, "the input 'x' has no declared rank"),
        ([helper.make_node("Relu", ["x"], ["y"])], {"x": [-3]}, "the input 'x' has the negative size -3"),
        ([helper.make_node("Add", ["x", "x"], ["y"], axis=1)], {"x": [1]}, "Add 'y': there is no attribute axis"),
        ([helper.make_node("Add", ["x"], ["y"])], {"x": [1]}, "Add 'y': it has 1 inputs; 2 to 2 are possible"),
        ([helper.make_node("Concat", ["x", "", "x"], ["y"], axis=0)], {"x": [1]}, "Concat 'y': the input 1 is missing"),
        ([helper.make_node("Gemm", ["x", "", "x"], ["y"])], {"x": [1]}, "Gemm 'y': the input B is missing"),
        ([helper.make_node("Softmax", ["x"], ["y"], axis="a")], {"x": [1]}, "the attribute axis is of the kind INT, not STRING"),
        ([helper.make_node("Softmax", ["x"], ["y"], axis=4)], {"x": [1]}, "a tensor of rank 1 has no axis 4"),
        ([helper.make_node("Reshape", ["x", "x"], ["y"])], {"x": ["n"]}, "the length of the shape must be known at import"),
        ([helper.make_node("MatMul", ["x", "x"], ["y"], name="/m")], {"x": [2, 3]}, "MatMul '/m': "),
        ([_linear(update_rule="gated")], {"x": [1, 2, 4]}, "LinearAttention 'y': the update rule gated needs decay"),
        ([_linear("x", update_rule="linear")], {"x": [1, 2, 4]}, "the update rule linear has no decay"),
        ([_linear(update_rule="none")], {"x": [1, 2, 4]}, "the attribute update_rule is 'none'"),
        ([_linear(kv_num_heads=3)], {"x": [1, 2, 4]}, "q_num_heads is 4, which is no positive multiple of kv_num_heads, 3"),
    ],
)
def test_wrong_models_are_refused(nodes: Sequence[Any], inputs: dict[str, Any], message: str) -> None:
    newest = {"opset_imports": [helper.make_opsetid("", 27)]} if nodes[0].op_type == "LinearAttention" else {}
    assert message in refusal(model_of(nodes, inputs, ["y"], **newest))


def test_sizes_that_exporters_write_for_unknown() -> None:
    mod, _ = relay.frontend.from_onnx(model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [-1, "?", "?"]}, ["y"]))
    assert str(mod["main"].params[0].type_annotation) == "Tensor[(?, ?, ?), float32]"


def test_damaged_models() -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"], name="first")], {"x": [1]}, ["y"])
    assert "onnx.NodeProto.name is no text in UTF-8" in refusal(model.SerializeToString().replace(b"first", b"fi\xffst"))
    model.opset_import[0].version = 2**40
    assert "the operators of ai.onnx have the impossible version 1099511627776" in refusal(model)


def test_files(tmp_path: Path) -> None:
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [1024]}, ["y"], {"w": np.arange(1024, dtype="float32")})
    folder = tmp_path / "model"
    folder.mkdir()
    path = folder / "m.onnx"
    onnx.save_model(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    mod, params = relay.frontend.from_onnx(path, freeze_params=False)
    assert (params["w"] == np.arange(1024)).all() and not params["w"].flags.owndata
    assert mod["main"].body.value.span.place.endswith("m.onnx:1:1")  # type: ignore[attr-defined]
    assert "is stored in another file" in refusal(path.read_bytes())
    (folder / "weights.bin").write_bytes(b"short")
    assert "bytes 0 to 4096 are outside of weights.bin, which has 5" in refusal(path)
    stored = onnx.load_model(path, load_external_data=False)
    stored.graph.initializer[0].external_data[0].value = "../secret"
    path.write_bytes(stored.SerializeToString())
    assert "is stored outside of the model's folder: '../secret'" in refusal(path)
    (folder / "cut.onnx").write_bytes(path.read_bytes()[:40])
    assert "is no ONNX model" in refusal(folder / "cut.onnx")
    assert "cannot be read" in refusal(folder / "nowhere.onnx")
    del stored.opset_import[:]
    assert "does not say which version" in refusal(stored)


def test_stored_tensors_that_contradict_their_type() -> None:
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [4]}, ["y"], {"w": np.ones(4, "float32")})
    model.graph.initializer[0].dims[0] = 10**15
    assert "but 16 bytes are stored" in refusal(model)
    model.graph.initializer[0].dims[0] = -4
    assert "the tensor 'w' has the impossible shape (-4,)" in refusal(model)
    model.graph.initializer[0].data_type = TensorProto.STRING
    assert "the tensor 'w' has the dtype string" in refusal(model)


def graph_of(nodes: Sequence[Any], inputs: Sequence[tuple[str, int, Any]], outputs: Sequence[str]) -> Any:
    infos = [helper.make_tensor_value_info(*i) for i in inputs]
    return helper.make_graph(nodes, "body", infos, [onnx.ValueInfoProto(name=o) for o in outputs])


def test_a_loop_with_a_state_that_grows_and_values_of_unknown_number() -> None:
    body = graph_of(
        [helper.make_node("Concat", ["state", "x"], ["longer"], axis=0),  # x is of the graph around
         helper.make_node("ReduceSum", ["longer"], ["total"], keepdims=0),
         helper.make_node("Less", ["total", "limit"], ["more"])],
        [("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("state", FLOAT, None)],
        ["more", "longer", "total"],
    )  # fmt: skip
    model = model_of([helper.make_node("Loop", ["", "", "x"], ["end", "totals"], body=body)], {"x": ["n"], "limit": []},
                     ["end", "totals"])  # fmt: skip
    end, totals = relay.frontend.OnnxBackend.prepare(model, opt_level=1).run([np.ones(2, "float32"), np.float32(7)])
    assert end.tolist() == [1.0] * 8 and totals.tolist() == [4.0, 6.0, 8.0]


def test_branches_of_different_shapes() -> None:
    branches = {
        "then_branch": graph_of([helper.make_node("Concat", ["x", "x"], ["a"], axis=0)], [], ["a"]),
        "else_branch": graph_of([helper.make_node("Neg", ["x"], ["b"])], [], ["b"]),
    }
    nodes = [helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0), helper.make_node("Greater", ["s", "zero"], ["c"]),
             helper.make_node("If", ["c"], ["y"], **branches)]  # fmt: skip
    prepared = relay.frontend.OnnxBackend.prepare(
        model_of(nodes, {"x": ["n"]}, ["y"], {"zero": np.zeros((), "float32")}), opt_level=1
    )
    assert [prepared.run([np.full(2, v, "float32")])[0].tolist() for v in (1, -1)] == [[1.0] * 4, [1.0] * 2]


def test_metadata() -> None:
    model = model_of([helper.make_node("Neg", ["x"], ["y"])], {"x": ["n"]}, ["y"])
    assert relay.frontend.onnx_metadata(model) == {}
    helper.set_model_props(model, {"character": "a\nb", "author": ""})
    assert relay.frontend.onnx_metadata(model.SerializeToString()) == {"character": "a\nb", "author": ""}
    with pytest.raises(relay.RelayError, match="onnx_metadata: the model"):
        relay.frontend.onnx_metadata(3)


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes", "text"),
    [
        ("Add", [["n", 3, 4], [3]], {"broadcast": 1, "axis": 1}, "expand_dims(%y, axis=1)"),
        ("Mul", [["n", 3], [3]], {"broadcast": 1}, "multiply(%x, %y)"),
        ("Pow", [["n", 3, 4], [3]], {"broadcast": 1, "axis": -2}, "expand_dims(%y, axis=1)"),
        ("PRelu", [["n", 3, 4, 4], [3]], {}, "expand_dims(%y, axis=1, num_newaxis=2)"),
        ("PRelu", [["n", 3, 4, 4], [1]], {}, "multiply(%y, %x)"),
        ("Sum", [["n", 3], ["n", 3]], {}, "add(%x, %y)"),
    ],
)
def test_operands_of_version_6(operator: str, shapes: list[Any], attributes: dict[str, Any], text: str) -> None:
    node = helper.make_node(operator, ["x", "y"], ["z"], **attributes)
    inputs = dict(zip("xy", shapes, strict=True))
    assert text in relay.frontend.from_onnx(model_of([node], inputs, ["z"]), opset=6)[0].astext()


@pytest.mark.parametrize(
    ("operator", "domain", "attributes"),
    [
        ("StringNormalizer", "", {}),
        ("LabelEncoder", "ai.onnx.ml", {"keys_strings": ["a"], "values_int64s": [1]}),
        ("OneHotEncoder", "ai.onnx.ml", {"cats_strings": ["a"]}),
    ],
)
def test_an_input_of_texts(operator: str, domain: str, attributes: dict[str, Any]) -> None:
    """The error names the operator that reads the texts, and the remedy."""
    node = helper.make_node(operator, ["x"], ["y"], "encode", domain=domain, **attributes)
    model = model_of([node], {"x": ["n"]}, ["y"])
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.STRING
    found = refusal(model)
    assert f"{operator} 'encode' reads texts, the input 'x'; tensors here have no texts" in found
    assert "cut the model apart there: onnx.utils.extract_model" in found


def test_an_operator_on_texts_has_no_converter() -> None:
    """The help is the remedy, where the input of a model says nothing of texts."""
    model = model_of([helper.make_node("StringNormalizer", ["x"], ["y"])], {"x": ["n"]}, ["y"])
    assert "cut the model apart there: onnx.utils.extract_model" in refusal(model)


def test_n_grams_that_cannot_be_counted() -> None:
    common: dict[str, Any] = {"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0, "ngram_counts": [0]}
    for attributes, message in (
        ({"pool_strings": ["a"], "ngram_indexes": [0]}, "it counts texts"),
        ({"pool_int64s": [5], "ngram_indexes": [0, 1]}, "ngram_indexes has 2 elements for 1 n-grams"),
        ({"pool_int64s": [5], "ngram_indexes": [0], "ngram_counts": [2]}, "do not divide a pool of 1 elements"),
        ({"pool_int64s": [5], "ngram_indexes": [0], "min_gram_length": 2, "max_gram_length": 2}, "no n-grams of 2 to 2"),
        ({"pool_int64s": [5], "ngram_indexes": [0], "weights": [1.0, 2.0]}, ""),
    ):
        node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **{**common, **attributes})
        model = model_of([node], {"x": ["n"]}, ["y"])
        if message:
            assert message in refusal(model, dtype="int64")
        else:
            relay.frontend.from_onnx(model, dtype="int64")  # without TFIDF or IDF the weights are not used


def test_an_imported_model_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Python's collector, which is paused while a program is compiled: the weights of a model take much memory."""
    kept = list[weakref.ref[Any]]()
    monkeypatch.setattr(from_onnx, "read_model", lambda *given: (read := read_model(*given), kept.append(weakref.ref(read)))[0])
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": ["n"]}, ["y"], {"w": np.ones(1, "float32")})
    with collection_paused():
        relay.frontend.from_onnx(model)
        assert kept[0]() is None


@pytest.mark.parametrize(
    ("sizes", "is_same"), [([2, 3], True), ([1, 3], True), ([3], True), ([4, 2, 3], False), ([2, 1, 3], False)]
)
def test_a_tensor_is_not_expanded_to_its_own_shape(sizes: list[int], is_same: bool) -> None:
    model = model_of([helper.make_node("Expand", ["x", "s"], ["y"])], {"x": [2, 3]}, ["y"], {"s": np.array(sizes)})
    assert ("broadcast_to" in relay.frontend.from_onnx(model)[0].astext()) != is_same
    x = np.arange(6, dtype="float32").reshape(2, 3)
    wanted = np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(sizes)))
    np.testing.assert_array_equal(relay.VirtualMachine(relay.compile(relay.frontend.from_onnx(model)[0])).run(x), wanted)


def test_one_axis_may_be_a_scalar_at_run_time() -> None:
    nodes = [helper.make_node("Cast", ["a"], ["axis"], to=TensorProto.INT64), helper.make_node("ReduceSum", ["x", "axis"], ["y"])]
    mod, _ = relay.frontend.from_onnx(model_of(nodes, {"x": ["n", 3], "a": []}, ["y"]))
    assert "sum" in mod.astext()


def test_a_size_of_the_data_stays_where_it_is_0() -> None:
    """As exporters repeat heads that share keys: the sizes are known, also where there are no positions."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "front"], ["batch"]),
        helper.make_node("Gather", ["s", "back"], ["rest"]),
        helper.make_node("Concat", ["batch", "heads", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    stored = {"front": np.array([0]), "back": np.array([3, 4]), "heads": np.array([6])}
    module = relay.frontend.from_onnx(model_of(nodes, {"x": ["b", 2, 3, "n", 4]}, ["y"], stored))[0]
    assert "dyn.reshape" not in str(module)
    vm = relay.VirtualMachine(relay.compile(module))
    for b, n in ((2, 5), (2, 0), (0, 5), (0, 0)):
        assert vm.run(np.zeros((b, 2, 3, n, 4), "float32")).shape == (b, 6, n, 4)


@pytest.mark.parametrize("dtype", [TensorProto.INT64, TensorProto.INT16])
def test_a_range_up_to_a_size_has_the_size(dtype: int) -> None:
    """A cast to fewer bits wraps: then the length is another."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "axis"], ["n"]),
        helper.make_node("Cast", ["n"], ["limit"], to=dtype),
        helper.make_node("Range", ["zero", "limit", "one"], ["at"]),
        helper.make_node("Cast", ["at"], ["number"], to=FLOAT),
        helper.make_node("Add", ["x", "number"], ["y"]),
    ]
    whole = helper.tensor_dtype_to_np_dtype(dtype)
    stored = {"axis": np.array(-1), "zero": np.array(0, whole), "one": np.array(1, whole)}
    module = relay.frontend.from_onnx(model_of(nodes, {"x": [2, "n"]}, ["y"], stored))[0]
    size = "?n" if dtype == TensorProto.INT64 else "?"
    assert str(relay.transform.InferType()(module)["main"].body.ty) == f"Tensor[(2, {size}), float32]"
    vm = relay.VirtualMachine(relay.compile(module))
    for n in (0, 1, 3):
        np.testing.assert_array_equal(vm.run(np.ones((2, n), "float32")), np.ones((2, n)) + np.arange(n))
