"""Sequences and optionals: values against ONNX's own evaluator, and the lengths and positions that must be known at import."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import relayvm as relay

STORED = {"one": 1, "zero": 0, "last": -1, "two": 2, "three": 3, "far": 7, "parts": [1, 2]}


def model_of(*nodes: Any, outputs: str = "y") -> onnx.ModelProto:
    """A model with a matrix ``x`` of 3 rows, a position ``k`` and the numbers of STORED."""
    matrix = helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, "n"])
    infos = [matrix, helper.make_tensor_value_info("k", TensorProto.INT64, [])]
    tensors = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in STORED.items()]
    graph = helper.make_graph(nodes, "g", infos, [onnx.ValueInfoProto(name=o) for o in outputs.split()], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op, inputs.split(), output.split(), **attributes)


def double() -> Any:
    """The graph of twice a tensor, plus another."""
    nodes = [node("Add", "a a", "b"), node("Add", "b c", "d")]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in "acd"]
    return helper.make_graph(nodes, "double", infos[:2], infos[2:])


def appending(ends: str = "more") -> Any:
    """The body of a loop that appends twice the rows of ``x`` to a sequence, and collects the number of the round."""
    nodes = [node("Add", "x x", "z"), node("SequenceInsert", "s z", "t"), node("Identity", "i", "at"),
             node("Less", "i one", "few"), node("Less", "i k", "below"), node("Identity", ends, "again")]  # fmt: skip
    infos = [helper.make_tensor_value_info(n, t, []) for n, t in (("i", TensorProto.INT64), ("more", TensorProto.BOOL))]
    results = [helper.make_tensor_value_info("again", TensorProto.BOOL, []), helper.make_value_info("t", SEQUENCE)]
    results.append(helper.make_tensor_value_info("at", TensorProto.INT64, []))
    return helper.make_graph(nodes, "appending", [*infos, helper.make_value_info("s", SEQUENCE)], results)


def collected(trips: str, begin: Any, ends: str = "more") -> tuple[Any, ...]:
    """A sequence made by a loop, and its length."""
    loop = helper.make_node("Loop", [trips, "", "s0"], ["seq", "rounds"], name="loop", body=appending(ends))
    whole = node("ConcatFromSequence", "seq", "all", axis=0)
    return begin, loop, whole, node("Cast", "rounds", "f", to=TensorProto.FLOAT), node("ReduceSum", "f", "sum", keepdims=0)


SEQUENCE = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
NONE = helper.make_node("SequenceEmpty", [], ["s0"])
ROWS = node("SplitToSequence", "x", "rows", keepdims=0)
PAIR = node("SplitToSequence", "x parts", "pair", axis=0)
MODELS = {
    "a row": (ROWS, node("SequenceAt", "rows last", "y")),
    "a row known at run time": (ROWS, node("SequenceAt", "rows k", "y")),
    "rows as columns": (ROWS, node("ConcatFromSequence", "rows", "y", axis=1, new_axis=1)),
    "chunks": (node("SplitToSequence", "x two", "s"), node("SequenceErase", "s zero", "t"), node("SequenceAt", "t zero", "y")),
    "the last is erased": (PAIR, node("SequenceErase", "pair", "t"), node("ConcatFromSequence", "t", "y", axis=0)),
    "parts in another order": (
        PAIR, node("SequenceAt", "pair one", "a"), node("SequenceAt", "pair last", "b"),
        node("SequenceConstruct", "a", "s"), node("SequenceInsert", "s x last", "t"), node("SequenceInsert", "t b", "u"),
        node("ConcatFromSequence", "u", "y", axis=0)),
    "a length": (helper.make_node("SequenceEmpty", [], ["s"]), node("SequenceInsert", "s x", "t"),
                 node("SequenceLength", "t", "y")),
    "a graph for each": (PAIR, node("SequenceErase", "pair", "row"), node("SequenceMap", "row x", "m", body=double()),
                         node("ConcatFromSequence", "m", "y", axis=0)),
    "an optional": (node("Optional", "x", "o"), node("OptionalHasElement", "o", "h"), node("OptionalGetElement", "x", "e"),
                    node("Cast", "h", "f", to=TensorProto.FLOAT), node("Add", "e f", "y")),
}  # fmt: skip


@pytest.mark.parametrize("name", list(MODELS))
def test_values(name: str) -> None:
    model = model_of(*MODELS[name])
    prepared, reference = relay.frontend.OnnxBackend.prepare(model), ReferenceEvaluator(model)
    for n, k in ((4, 1), (1, -3), (0, 2)):
        x = np.arange(3 * n, dtype="float32").reshape(3, n)
        [have] = prepared.run([x, np.array(k, "int64")])
        [want] = reference.run(None, {"x": x, "k": np.array(k, "int64")})
        np.testing.assert_array_equal(have, want)


@pytest.mark.parametrize(("trips", "ends", "rounds"), [("three", "more", 3), ("far", "few", 2)])
def test_a_loop_over_a_sequence_that_grows(trips: str, ends: str, rounds: int) -> None:
    """The reference's loop loses sequences."""
    prepared = relay.frontend.OnnxBackend.prepare(model_of(*collected(trips, NONE, ends), node("Add", "all sum", "y")))
    for n in (4, 1, 0):
        x = np.arange(3 * n, dtype="float32").reshape(3, n)
        [have] = prepared.run([x, np.array(0, "int64")])
        np.testing.assert_array_equal(have, np.concatenate([x + x] * rounds) + sum(range(rounds)))


def test_the_copy_of_an_optional_without_a_value() -> None:
    """For the reference every named value is there."""
    nodes = (helper.make_node("Optional", [], ["o"]), node("Identity", "o", "p"), node("OptionalHasElement", "p", "y"))
    [have] = relay.frontend.OnnxBackend.prepare(model_of(*nodes)).run([np.eye(3, dtype="float32"), np.int64(0)])
    assert have.shape == () and not have


def test_sequences_are_tuples_among_the_results() -> None:
    assert "let %outputs = (%pair, %x);" in relay.frontend.from_onnx(model_of(PAIR, outputs="pair x"))[0].astext()
    pair, x = relay.frontend.OnnxBackend.prepare(model_of(PAIR, outputs="pair x")).run([np.eye(3, dtype="float32"), np.int64(0)])
    assert isinstance(pair, list) and [len(p) for p in pair] == [1, 2] and x.shape == (3, 3)
    [pair] = relay.frontend.OnnxBackend.prepare(model_of(PAIR, outputs="pair")).run([np.eye(3, dtype="float32"), np.int64(0)])
    assert [len(p) for p in pair] == [1, 2]


def in_parts(inputs: str, **attributes: Any) -> onnx.ModelProto:
    """A model that splits ``x`` into parts ``y``: as a vector ``v`` says, into parts of ``k`` rows, or into rows."""
    infos = {"x": (TensorProto.FLOAT, ["n", "m"]), "v": (TensorProto.INT64, ["p"]), "k": (TensorProto.INT64, [])}
    graph = helper.make_graph(
        [node("SplitToSequence", inputs, "y", **attributes)], "g",
        [helper.make_tensor_value_info(n, *infos[n]) for n in inputs.split()], [helper.make_value_info("y", SEQUENCE)],
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


@pytest.mark.parametrize("device", ["CPU", "SIM"])
@pytest.mark.parametrize(
    ("inputs", "attributes", "parts"),
    [("x v", {"axis": 1}, ([3], [1, 0, 2], [0, 3])), ("x k", {}, (1, 2, 7)), ("x", {}, (None,)), ("x", {"keepdims": 0}, (None,))],
)  # fmt: skip
def test_parts_whose_number_is_known_at_run_time(inputs: str, attributes: dict[str, Any], parts: Any, device: str) -> None:
    model = in_parts(inputs, **attributes)
    prepared, reference = relay.frontend.OnnxBackend.prepare(model, device), ReferenceEvaluator(model)
    for rows in (4, 1):
        for given in parts:
            x = np.arange(3 * rows, dtype="float32").reshape(rows, 3)
            arrays = {"x": x} if given is None else {"x": x, inputs[-1]: np.array(given, np.int64)}
            [have], [want] = prepared.run(list(arrays.values())), reference.run(None, arrays)
            assert isinstance(have, list) and [h.shape for h in have] == [np.shape(w) for w in want]
            assert all(np.array_equal(h, w) for h, w in zip(have, want, strict=True))
    if inputs != "x v":
        assert prepared.run([np.ones((0, 3), "float32"), *([np.array(2)] if inputs == "x k" else [])]) == ([],)


def test_wrong_parts_and_the_text_of_a_list() -> None:
    mod, _ = relay.frontend.from_onnx(in_parts("x v"))
    assert relay.parse(mod.astext()).astext() == mod.astext()
    x = np.ones((4, 3), "float32")
    with pytest.raises(relay.RelayError, match="SplitToSequence 'y': the parts have 3 elements of 4"):
        relay.frontend.OnnxBackend.prepare(in_parts("x v")).run([x, np.array([1, 2])])
    with pytest.raises(relay.RelayError, match="division by zero"):
        relay.frontend.OnnxBackend.prepare(in_parts("x k")).run([x, np.array(0)])


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ((node("SplitToSequence", "x k", "s"), node("SequenceLength", "s", "y")),
         "the length of the sequence must be known at import"),
        ((PAIR, node("SplitToSequence", "x k", "s"), node("SequenceMap", "pair s", "y", body=double())),
         "the length of the sequence must be known at import"),
        ((node("SplitToSequence", "x zero", "y"),), "parts of 0 elements are impossible"),
        ((node("SplitToSequence", "x parts", "y", axis=2),), "a tensor of rank 2 has no axis 2"),
        ((PAIR, node("SequenceErase", "pair k", "y")), "the position must be known at import"),
        ((PAIR, node("SequenceAt", "pair two", "y")), "a sequence of 2 tensors has no position 2"),
        ((PAIR, node("SequenceInsert", "pair x three", "y")), "a sequence of 2 tensors has no position 3"),
        ((PAIR, ROWS, node("SequenceMap", "pair rows", "y", body=double())), "the sequences have the lengths 2, 3"),
        ((node("SequenceLength", "x", "y"),), "a sequence is wanted, not Tensor[(3, ?n), float32]"),
        ((PAIR, node("Relu", "pair", "y")), "Relu"),
        ((PAIR, node("SequenceErase", "pair", "s"), node("SequenceErase", "s", "t"), node("SequenceErase", "t", "y")),
         "an empty sequence has no element"),
        ((PAIR, node("SequenceErase", "pair", "s"), node("SequenceErase", "s", "t"), node("SequenceAt", "t k", "y")),
         "an empty sequence has no element"),
        ((PAIR, node("SequenceErase", "pair", "s"), node("SequenceErase", "s", "t"),
          node("ConcatFromSequence", "t", "y", axis=0)), "an empty sequence has no tensor to concatenate"),
        ((helper.make_node("Optional", [], ["o"]), node("OptionalGetElement", "o", "y")), "the input 0 ('o') has no value"),
        ((*collected("k", NONE), node("Add", "all sum", "y")), "state 0 has 0 tensors before a round and 1 after it"),
        ((*collected("far", NONE, "below"), node("Add", "all sum", "y")), "state 0 has 0 tensors before a round and 1 after it"),
        ((*collected("zero", NONE), node("Add", "all sum", "y")), "state 0 has 0 tensors before a round and 1 after it"),
        ((helper.make_node("Optional", [], ["y"]),), "'y' is an optional without a value"),
    ],
)  # fmt: skip
def test_refusals(nodes: tuple[Any, ...], message: str) -> None:
    with pytest.raises(relay.ModelError) as caught:
        relay.frontend.from_onnx(model_of(*nodes))
    assert message in str(caught.value)
