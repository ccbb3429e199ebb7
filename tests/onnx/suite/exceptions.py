"""Cases of ONNX's suite whose variants do not run, each with its reason."""

from __future__ import annotations

import re

_BODY = "the rank of a tensor in the body is declared nowhere: the number of elements of an input decides it"
_PARTS = "the number of parts decides the type of a sequence"

#: Cases that need declared sizes.
NEED_SIZES = {
    "test_affine_grid_3d_expanded": _BODY,
    "test_split_to_sequence_2": _PARTS,
    "test_split_to_sequence_nokeepdims": _PARTS,
}

#: Cases that need a constant: with the value as an input, the rank of a value is known nowhere.
NEED_CONSTANTS = {"test_affine_grid_3d_expanded": _BODY}

#: The reasons why a case is refused at other sizes, and patterns of the cases with their axes: the reference computes something
#: that the standard does not say.
REFERENCE_DIFFERS = {
    "the number of heads is 0, and the standard divides by it": (r"test_(flex)?attention_?.*\[Q\..*1.*\]",),
    "the standard's body reshapes nothing to the shape of heads, whose size 0 means another one": (
        r"test_(flex)?attention_?.*\[.*(Q|V|K|past_\w+)\.[0123].*\]",),
    "no window fits the data": (
        r"test_(averagepool|maxpool|lppool|conv|causal_conv|qlinearconv|basic_conv|deform_conv)_?.*\[(x|X|input|W)\.[234].*\]",
        r"test_convtranspose_?.*\[W\..*\]",
        # the reference returns nothing where the padded data is one element shorter than the window
        r"test_causal_conv_with_state_short_input_no_past_state_expanded\[input\.0=input\.2\]"),
    "an axis is too short to be mirrored": (r"test_(reflect|edge|wrap)_pad\[.*\]",),
    "an image without elements has no samples": (r"test_gridsample(_.*)?\[X\..*\]",),
    "the batches of data and grid differ": (r"test_gridsample_.*\[Grid\.0\]",),
    "the number of directions contradicts the attribute": (
        r"test_(gru|lstm|simple_rnn|rnn)_.*\[.*(W|R|B|P)\.0.*\]", r"test_lstm_with_peepholes\[initial_[hc]\.0\]"),
    "a zero point or scale for each row has another number of elements than there are rows": (
        r"test_(q?linear)?matmul(integer|_).*\[.*(zero_point|scale)\.0\]",
        r"test_(de)?quantizelinear_.*\[.*(zero_point|scale)\.\d\]"),
    "the target has other sizes than the data, or the weights are not one for each class": (
        r"test_(nllloss|sce)_.*\[.*(weight|w|x|y|input|target)\.\d\]",),
    "numbers that are one by the standard are several": (
        r"test_nonmaxsuppression_.*\[.*(max_output_boxes_per_class|iou_threshold|score_threshold)\.0\]",
        r"test_top_k(_.*)?\[k\.0\]", r"test_split_.*\[split\.0\]"),
    "boxes, scores, regions and their batches contradict each other": (
        r"test_nonmaxsuppression_.*\[(boxes|scores)\.\d\]", r"test_roialign_.*\[rois\.0\]"),
    "the shape has another number of elements than there are axes": (r"test_center_crop_pad_.*\[.*shape\.0.*\]",),
    "the parts do not add up to the axis": (r"test_split_variable_parts_.*\[input\.0=split\.0\]",),
    "an index, or a length, is out of the range of a smaller axis": (
        r"test_gather_elements_0\[data\.1=indices\.1\]", r"test_reversesequence_time\[x\.0=x\.1=sequence_lens\.0\]"),
    "the reference ignores the limits that have no partner: starts and ends have other numbers of elements": (
        r"test_slice_default_axes\[(starts|ends)\.0\]",),
    "there are more updates than indices": (r"test_scatter_.*\[updates\.\d\]",),
}  # fmt: skip

#: The reasons why results have another shape than the reference's, and patterns of the cases with their axes.
SIZES_LOST = {
    "the standard's body infers a size from no elements": (r"test_linear_attention_.*\[query\.1=.*\]",),
    "the reference takes the logarithm of a probability that is rounded to 0": (r"test_logsoftmax_large_number\[x\.1\]",),
    "the reference ignores the lengths of sequences": (r"test_lstm_with_peepholes\[X\.0\]",),
    "the reference moves windows with gaps where the last one ends outside": (
        r"test_averagepool_3d_dilations_large_.*_ceil_mode_is_True\[x\.[234].*\]",
    ),
}


def excuse(name: str, outcome: str) -> str:
    """The reason for an outcome of a case at other sizes; "" if there is none."""
    reasons = {"error": REFERENCE_DIFFERS, "wrong": SIZES_LOST}.get(outcome, {})
    return next((why for why, patterns in reasons.items() if any(re.fullmatch(p, name) for p in patterns)), "")
