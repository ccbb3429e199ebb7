"""The cases of ONNX's suite that do not run, with the reasons, and those whose expected values are too coarse.

``test_suite`` holds the list exact: a case here that runs is an error, and so is a case that does not run and is not here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
from onnx.numpy_helper import from_array, to_array

from .cases import Case


@dataclass(frozen=True)
class Reason:
    """Patterns of whole names of cases, and the reason why these do not run."""

    why: str
    names: Sequence[str]


_SMALL = r"(U?INT[24]|FLOAT4E2M1|FLOAT8\w+)"

#: The reason of cases whose values are other ones in each implementation.
RANDOM = "the expected values are random"
NOT_RUN = (
    Reason("no tensor here has strings", (
        r"test_equal_string(_broadcast)?", r"test_regex_full_match_.*", r"test_string_(concat|split)_?.*", r"test_strnorm.*",
        r"test_ai_onnx_ml_label_encoder_.*")),
    Reason("no tensor here has elements of 2 or 4 bits, or floats of 4 or 8 bits", (
        rf"test_cast(like)?_(\w+_)?(FLOAT(16)?_to_{_SMALL}|{_SMALL}_to_\w+)(_expanded)?",
        r"test_(de)?quantizelinear_(e4m3fn.*|e5m2|float4e2m1|u?int[24])")),
    Reason("no operator here decodes images", (r"test_image_decoder_.*",)),
    Reason("programs here are run, not trained", (
        r"test_(adagrad|adam|momentum|nesterov_momentum)(_multiple)?", r"test_batchnorm_\w+_training_mode",
        r"test_training_dropout.*", r"test_gradient_of_.*")),
    Reason(RANDOM, (r"test_bernoulli.*",)),
    Reason("the operator TreeEnsemble has no converter", (r"test_ai_onnx_ml_tree_.*",)),
    Reason("no input here is a sequence: a model declares no length for it", (
        r"test_identity_sequence", r"test_loop13_seq", r"test_optional_get_element_sequence", r"test_sequence_(insert|map)_.*")),
    Reason("a value that may be absent at run time has no type", (
        r"test_identity_opt", r"test_if_opt", r"test_loop16_seq_none", r"test_optional_get_element_optional_.*",
        r"test_optional_has_element_(tensor|optional|empty_optional)_input")),
    Reason("the rank of a tensor in the body is known at run time only: it squeezes without axes or has two ranks", (
        r"test_affine_grid_(2d|2d_align_corners|3d_align_corners)_expanded",)),
)  # fmt: skip

#: The least ``rtol`` and ``atol`` of cases whose expected values are further from the exact ones than ours.
COARSE = {
    "test_attention_4d_causal_fp16": (2.0**-9, 0.0),
    "test_attention_4d_causal_fp16_expanded": (2.0**-9, 0.0),
    "test_attention_4d_gqa_causal_nonpad_decode_fp16": (2.0**-9, 0.0),
    "test_attention_4d_gqa_causal_nonpad_decode_fp16_expanded": (2.0**-9, 0.0),
    "test_dft_inverse": (0.0, 2e-6),
    "test_dft_inverse_opset19": (0.0, 2e-6),
}

#: Powers of two by which fills of ``ConstantOfShape`` are scaled, by case and by output of the node.  Logits of squeezenet are
#: 9.5e9, where floats are 1024 apart: softmax is even only if a product rounds all 1,000 columns alike, and OpenBLAS for some
#: processors does not.  The scaled model has the same expected output.
SCALED = {"test_squeezenet": {"conv10_w_0": 2.0**-30, "conv10_b_0": 2.0**-30}}


@cache
def why_not_run(name: str) -> str:
    """The reason why a case does not run; "" for a case that runs."""
    return next((r.why for r in NOT_RUN if any(re.fullmatch(n, name) for n in r.names)), "")


def graded(case: Case) -> Case:
    """The case with the tolerances of COARSE and the fills of SCALED."""
    rtol, atol = COARSE.get(case.name, (0.0, 0.0))
    model = _scaled(case.model, SCALED[case.name]) if case.name in SCALED else case.model
    return replace(case, model=model, rtol=max(case.rtol, rtol), atol=max(case.atol, atol))


def _scaled(model: Any, factors: Mapping[str, float]) -> Any:
    """A copy of the model with scaled fills; each name is the output of a ``ConstantOfShape``."""
    result = type(model).FromString(model.SerializeToString())
    fills = {node.output[0]: node.attribute[0].t for node in result.graph.node if node.op_type == "ConstantOfShape"}
    for name, factor in factors.items():
        fills[name].CopyFrom(from_array(to_array(fills[name]) * np.float32(factor)))
    return result
