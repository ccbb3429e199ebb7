"""Variants of ONNX's suite: sizes that are symbols, values that come at run time, other sizes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
import pytest

import relayvm as relay

from .cases import Case, node_cases, outcome
from .core import is_core
from .exceptions import EXCUSES, excuse
from .expectations import graded, why_not_run
from .variants import groups, once, resized, stored_as_inputs, symbolic

#: Cases whose ranks follow from declared ranks, and whose steps, windows and parts are counted at run time.
SYMBOLIC = (
    "test_reshape_zero_and_negative_dim", "test_expand_dim_unchanged", "test_unsqueeze_two_axes", "test_squeeze_negative_axes",
    "test_slice_default_axes", "test_slice_neg_steps", "test_constant_pad_axes", "test_tile", "test_constantofshape_int_zeros",
    "test_split_variable_parts_2d_opset18", "test_reduce_l2_do_not_keepdims_example_expanded",
    "test_reduce_sum_empty_axes_input_noop", "test_gathernd_example_int32_batch_dim1", "test_scatternd_add",
    "test_hardmax_axis_1", "test_dft", "test_det_nd", "test_unique_sorted_with_axis_3d", "test_col2im_pads",
    "test_conv_with_autopad_same", "test_convtranspose_autopad_same", "test_causal_conv_with_state_silu_fp16",
    "test_maxunpool_export_with_output_shape", "test_affine_grid_3d_expanded", "test_split_to_sequence_2",
    "test_split_to_sequence_nokeepdims",
)  # fmt: skip
AS_INPUTS = ("test_layer_normalization_2d_axis1_expanded", "test_dynamicquantizelinear_expanded", "test_mvn_expanded",
             "test_depthtospace_example_expanded", "test_affine_grid_3d_expanded")  # fmt: skip
RESIZED = (
    "test_add", "test_argmax_keepdims_example", "test_concat_2d_axis_0", "test_hardmax_axis_2", "test_gather_0", "test_matmul_2d",
    "test_reshape_negative_dim", "test_averagepool_2d_pads", "test_conv_with_strides_no_padding",
)  # fmt: skip
#: The wide run takes one case in so many; ``python -m tests.onnx`` takes all.
STEP = 80


@pytest.fixture(scope="module")
def by_name() -> dict[str, Case]:
    return {c.name: c for c in node_cases()}


def prepare(model: Any) -> Any:
    return relay.frontend.OnnxBackend.prepare(model)


def lost(cases: Iterable[Case], vary: Callable[[Case], Case | None]) -> list[str]:
    """The cases that pass, and whose variants do not."""
    found = []
    for case in cases:
        changed = None if why_not_run(case.name) else vary(case)
        result = None if changed is None else outcome(changed, prepare)
        if result is not None and result.kind != "passed" and outcome(case, prepare).kind == "passed":
            found.append(f"{case.name}: {result.kind}, {result.reason}")
    return found


def wrong(cases: Iterable[Case]) -> list[str]:
    """The cases of the core with other results than the reference at other sizes."""
    found, prepared = [], once(prepare)
    for case in cases:
        if is_core(case) and not why_not_run(case.name):
            for at in (a for a in resized(graded(case)) if not a.failure):
                result = outcome(at.case, prepared)
                if result.kind != "passed" and not excuse(at.case.name, result.kind, result.reason):
                    found.append(f"{at.case.name}: {result.kind}, {result.reason}")
    return found


@pytest.mark.extensive(part=[0])
@pytest.mark.parametrize("part", range(4))
def test_symbolic_sizes(by_name: dict[str, Case], part: int) -> None:
    assert lost([by_name[n] for n in SYMBOLIC[part::4]], symbolic) == []


def test_stored_values_as_inputs(by_name: dict[str, Case]) -> None:
    cases = [by_name[n] for n in AS_INPUTS]
    assert all(map(stored_as_inputs, cases)) and lost(cases, stored_as_inputs) == []


def test_other_sizes(by_name: dict[str, Case]) -> None:
    assert wrong(by_name[n] for n in RESIZED) == []


@pytest.mark.extensive
def test_some_of_all() -> None:
    cases = node_cases()
    assert lost(cases[::STEP], symbolic) == []
    assert lost(cases[STEP // 4 :: STEP], stored_as_inputs) == []
    assert wrong(cases[STEP // 2 :: 2 * STEP]) == []


@pytest.mark.extensive
def test_every_exception_is_of_a_case() -> None:
    names = {c.name for c in node_cases()}
    for e in EXCUSES:
        assert all(any(re.fullmatch(c.partition(r"\[")[0], n) for n in names) for c in e.cases), e.why


@pytest.mark.extensive
def test_the_variants_themselves(by_name: dict[str, Case]) -> None:
    sizes = [d for i in symbolic(by_name["test_add"]).model.graph.input for d in i.type.tensor_type.shape.dim]
    assert len({d.dim_param for d in sizes}) == 6 and not any(d.dim_value for d in sizes)
    given = stored_as_inputs(by_name["test_layer_normalization_2d_axis1_expanded"])
    assert given is not None and len(given.model.graph.input) > 3
    assert "Constant" not in {n.op_type for n in given.model.graph.node}
    assert stored_as_inputs(by_name["test_add"]) is None
    found = {at.case.name: at.case.data_sets[0][0][0].shape for at in resized(by_name["test_add"]) if not at.failure}
    assert [found[f"test_add[x.0=y.0={n}]"] for n in (0, 1, 5)] == [(0, 4, 5), (1, 4, 5), (5, 4, 5)]
    assert groups([(2, 3), (3,)]) == [((0, 0),), ((0, 1), (1, 0)), ((0, 1),), ((1, 0),)]


def test_no_rank_without_a_declaration() -> None:
    """A vector of unknown length decides a rank that no output declares."""
    node = onnx.helper.make_node("Reshape", ["x", "s"], ["y"])
    infos = [onnx.helper.make_tensor_value_info("x", 1, ["n"]), onnx.helper.make_tensor_value_info("s", 7, ["k"])]
    for declared, message in ((onnx.ValueInfoProto(name="y"), "declare the shape of 'y'"),
                              (onnx.helper.make_tensor_value_info("y", 1, ["a", "b"]), "")):  # fmt: skip
        graph = onnx.helper.make_graph([node], "g", infos, [declared])
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)])
        if message:
            with pytest.raises(relay.ModelError, match="length of the shape") as caught:
                relay.frontend.from_onnx(model)
            assert message in str(caught.value)
            continue
        machine = relay.frontend.OnnxBackend.prepare(model)
        assert machine.run([np.arange(6, dtype="float32"), np.array([-1, 2])])[0].shape == (3, 2)
        with pytest.raises(relay.RelayError):
            machine.run([np.arange(6, dtype="float32"), np.array([1, -1, 2])])


def test_starts_and_ends_of_a_slice_have_partners() -> None:
    """The numbers of starts and ends are known at run time only."""
    infos = [onnx.helper.make_tensor_value_info("x", 1, ["n", "m"])]
    infos += [onnx.helper.make_tensor_value_info(name, 7, [size]) for name, size in (("b", "k"), ("e", "l"))]
    node = onnx.helper.make_node("Slice", ["x", "b", "e"], ["y"])
    graph = onnx.helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")])
    machine = relay.frontend.OnnxBackend.prepare(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)]))
    x = np.arange(6, dtype="float32").reshape(3, 2)
    for limits, want in (([], x), ([1], x[1:9]), ([1, 0], x[1:9, 0:9])):
        [have] = machine.run([x, np.array(limits, "int64"), np.full(len(limits), 9)])
        np.testing.assert_array_equal(have, want)
    for begin, end, message in (
        ([0], [], "the length of starts is 1, that of ends is 0"),
        ([0], [1, 1, 1], "the length of starts is 1, that of ends is 3"),
        ([0] * 3, [1] * 3, "the length of starts is 3, but the data has 2 axes"),
    ):
        with pytest.raises(relay.RelayError) as caught:
            machine.run([x, np.array(begin, "int64"), np.array(end, "int64")])
        assert f"Slice 'y': {message}" in str(caught.value) and "y: Slice(x, b, e)" in str(caught.value)
