"""Cases of ONNX's suite at other sizes whose results are not the reference's, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Excuse:
    """The reason for an ``outcome`` of cases at other sizes.

    ``found``: a pattern of the outcome's text; ``cases``: patterns of names, with the axes and their size.
    """

    why: str
    outcome: str
    found: str
    cases: Sequence[str]


_DIRECTIONS = r"run/shape-check: nn\.(rnn|gru|lstm): the weight has \d directions, (forward|reverse|bidirectional) has [12]"

#: The cases at other sizes whose results are not the reference's.  Where a reason does not name the standard, onnxruntime 1.32
#: refuses the same inputs, or has the same results as this machine.
EXCUSES = (
    # ---- inputs that contradict each other; the reference does not check them
    Excuse("the weights are of other directions than the attribute says", "error",
           _DIRECTIONS,
           (r"test_(gru|lstm|simple_rnn|rnn)_\w+\[R\.0=[234]\]",)),
    Excuse("the bias is of more directions than the weights", "error",
           r"run/shape-check: add: sizes \d+ and \d+ do not broadcast.*",
           (r"test_(gru|lstm|simple_rnn|rnn)_\w+\[B\.0(=P\.0)?=[23]\]",)),
    Excuse("the state is of more directions than the weights", "error",
           r"run/shape-check: nn\.lstm: axis 0 of initial_(state|cell) has size [23], it must be 1",
           (r"test_lstm_with_peepholes\[initial_[hc]\.0=[23]\]",)),
    Excuse("the recurrent weights are of another number of units than their rows say", "error",
           r"run/shape-check: nn\.rnn: axis 1 of the weight has size 5, not 1 gates of its units: \d",
           (r"test_simple_rnn_with_initial_bias\[R\.2=[017]\]",)),
    Excuse("a scale or zero point for each row has another number of elements than there are rows", "error",
           r"run/shape-check: (multiply|subtract): sizes \d and 3 do not broadcast.*",
           (r"test_qlinearmatmul_[23]D_u?int8_float(16|32)\[a_scale\.0=3\]", r"test_matmulinteger\[a_zero_point\.0=3\]")),
    Excuse("the second axis of the target is the third of the scores, and has another size", "error",
           r"run/shape-check: gather: axis 2 has size 6 in the indices and [018] in the data",
           (r"test_sce_NCd1d2d3\w+\[x\.2=y\.2=[018]\]",)),
    Excuse("numbers that are one by the standard are several", "error",
           r"run/shape-check: reshape: cannot view [23] elements as \(\)",
           (r"test_nonmaxsuppression_\w+\[.*max_output_boxes_per_class\.0=iou_threshold\.0=score_threshold\.0=[23]\]",
            r"test_top_k(_\w+)?\[k\.0=[23]\]")),
    Excuse("there are more parts than outputs", "error",
           r"run/shape-check: reshape: cannot view [45] elements as \([23],\)",
           (r"test_split_\w+\[(input\.0=)?split\.0=[45]\]",)),
    Excuse("a box has four numbers", "error",
           r"run/shape-check: vision\.all_class_non_max_suppression: a box must have 4 numbers.*",
           (r"test_nonmaxsuppression_\w+\[boxes\.2=[016]\]",)),
    Excuse("the target shape has another number of elements than there are axes", "error",
           r"run/shape-check: maximum: sizes [23] and [045] do not broadcast.*",
           (r"test_center_crop_pad_\w+\[(x\.2=)?shape\.0=[045]\]",)),
    Excuse("the standard's body takes one number for all axes; with the body, the reference has the same shape", "wrong",
           r"output 0 is float32\(\d+, \d+, \d+\) instead of .*",
           (r"test_center_crop_pad_\w+\[(x\.2=)?shape\.0=1\]",)),
    Excuse("an index is out of the range of a smaller axis", "error",
           r"run/index-out-of-range: gather: an index is out of range",
           (r"test_gather_elements_\w+\[data\.(0=data\.1|1)=indices\.1=1\]",
            r"test_nllloss_\w+_expanded\[input\.1(=input\.4=target\.3)?=1\]")),
    Excuse("starts and ends have other numbers of elements", "error",
           r"run/shape-check: Slice 'y': the length of starts is \d, that of ends is \d.*",
           (r"test_slice_default_axes\[(starts|ends)\.0=[015]\]",)),
    Excuse("the indices have other sizes than the pooled data", "error",
           r"run/shape-check: scatter_elements: axis 0 is (8|12) in the indices and 4 in the updates",
           (r"test_maxunpool_export_with_output_shape\[xI\.([01]=[23]|[23]=4)\]",)),
    Excuse("the mask is of another number of keys", "error",
           r"run/shape-check: add: sizes \d+ and \d+ do not broadcast.*",
           (r"test_attention_\w+\[(K\.[12]=V\.[12]=8|past_key\.2=past_value\.2=14|Q\.2=K\.2=V\.2=attn_mask\.0=4)\]",)),
    Excuse("the heads of the queries are no multiple of those of the keys", "error",
           r"run/shape-check: dyn\.reshape: cannot view \d+ elements as .*",
           (r"test_attention_\w+\[Q\.1(=Q\.2)?(=attn_mask\.1)?(=attn_mask\.2)?=[01]\]",)),
    # ---- sizes at which the standard gives no result
    Excuse("the number of heads is 0, and the standard's body divides by it; the reference's quotient is 0", "error",
           r"run/division-by-zero: (\w+, )*divide(, \w+)*: .*",
           (r"test_(flex)?attention\w*\[(Q\.0=)?(Q\.1=(Q\.[23]=)?)?(K\.0=)?K\.1=.*V\.1=.*=?0\]",)),
    Excuse("the standard's body copies an axis where the head has no element: 0 in a shape is a copy", "error",
           r"run/shape-check: dyn\.reshape: cannot view 0 elements as .*",
           (r"test_attention_\w+\[(Q\.3=K\.3|V\.3)(=.*)?=0\]",)),
    Excuse("the standard's body copies an axis where the scores have no element: 0 in a shape is a copy", "error",
           r"run/shape-check: dyn\.reshape: newshape\[\d\] copies axis \d, but the data has 3 dimensions",
           (r"test_sce_\w+\[x\.[2-6]=.*y\.[2-5]=0\]",)),
    Excuse("an image without elements has no samples", "error",
           r"run/shape-check: image\.grid_sample: along [DHW] the data has no element",
           (r"test_gridsample\w*\[X\.[23](=X\.3)?=0\]",)),
    Excuse("an axis is too short to be mirrored", "error",
           r"run/shape-check: dyn\.nn\.pad: axis [23] of size 1 is too short to be mirrored 1 far",
           (r"test_reflect_pad\[x\.[23]=1\]",)),
    # ---- mistakes of the reference; onnxruntime has the results of this machine
    Excuse("the reference counts indices within one channel, from the begin of the padding", "wrong",
           r"output 1 at .*",
           (r"test_maxpool_with_argmax_2d_precomputed_pads\[x\.([01](=x\.1)?=[23]|[23](=x\.3)?=[17])\]",)),
    Excuse("the reference takes the logarithm of a probability that is rounded to 0", "wrong",
           r"output 0 at \(1, 4\): -159\.\d+ instead of -inf .*",
           (r"test_logsoftmax_large_number\[x\.1=6\]",)),
    Excuse("the reference ignores the lengths of sequences", "wrong",
           r"output 0 at \(0, 0, 0\): .*",
           (r"test_lstm_with_peepholes\[X\.0=[23]\]",)),
    Excuse("the reference moves windows with gaps where the last window ends outside", "wrong",
           r"output 0 at \(0, 0, 0, 0, 0\): .*",
           (r"test_averagepool_3d_dilations_large_count_include_pad_is_[01]_ceil_mode_is_True\[x\.(2=x\.3=x\.4|[234])=34\]",)),
)  # fmt: skip


def excuse(name: str, outcome: str, found: str) -> str:
    """The reason for an outcome of a case at another size; "" if there is none."""
    for e in EXCUSES:
        if outcome == e.outcome and re.fullmatch(e.found, found) and any(re.fullmatch(c, name) for c in e.cases):
            return e.why
    return ""
