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
        r"test_convtranspose_?.*\[W\..*\]"),
    "an axis is too short to be mirrored": (r"test_(reflect|edge|wrap)_pad\[.*\]",),
    "an image without elements has no samples": (r"test_gridsample_.*\[X\..*\]",),
    "the batches of data and grid differ": (r"test_gridsample_.*\[Grid\.0\]",),
    "the number of directions contradicts the attribute": (r"test_(gru|lstm|simple_rnn|rnn)_.*\[.*(W|R|B|P)\.0.*\]",),
    "a zero point or scale for each row has another number of elements than there are rows": (
        r"test_(q?linear)?matmul(integer|_).*\[.*(zero_point|scale)\.0\]",
        r"test_(de)?quantizelinear_.*\[.*(zero_point|scale)\.\d\]"),
    "the target has other sizes than the data, or the weights are not one for each class": (
        r"test_(nllloss|sce)_.*\[.*(weight|w|x|y|input|target)\.\d\]",),
    "numbers that are one by the standard are several": (
        r"test_nonmaxsuppression_.*\[.*(max_output_boxes_per_class|iou_threshold|score_threshold)\.0\]",
        r"test_top_k_.*\[k\.0\]", r"test_split_.*\[split\.0\]"),
    "boxes, scores, regions and their batches contradict each other": (
        r"test_nonmaxsuppression_.*\[(boxes|scores)\.\d\]", r"test_roialign_.*\[rois\.0\]"),
    "the shape has another number of elements than there are axes": (r"test_center_crop_pad_.*\[.*shape\.0.*\]",),
    "there are more updates than indices": (r"test_scatter_.*\[updates\.\d\]",),
}  # fmt: skip

#: The reasons why results have another shape than the reference's, and patterns of the cases with their axes.
SIZES_LOST = {
    "the standard's body infers a size from no elements": (r"test_linear_attention_.*\[query\.1=.*\]",),
}


def excuse(name: str, outcome: str) -> str:
    """The reason for an outcome of a case at other sizes; "" if there is none."""
    reasons = {"error": REFERENCE_DIFFERS, "wrong": SIZES_LOST}.get(outcome, {})
    return next((why for why, patterns in reasons.items() if any(re.fullmatch(p, name) for p in patterns)), "")
