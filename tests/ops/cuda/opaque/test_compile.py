"""The CUDA kernels of every OPAQUE operator compile for real GPUs, at all dtypes, with every size unknown.

Extensive: ``test_every_op`` runs the first dtype of every operator on the emulated GPU, and NVRTC compiles its text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.dtype_rules import FLOATS, NUMBERS
from relayvm.ops.core.implementation import GPU
from relayvm.ops.core.op import REGISTRY
from relayvm.ops.core.tensor_types import DTYPES, ITEMSIZE, numpy_dtype
from relayvm.shape_funcs.defs.convolution.conv import data_layouts, kernel_layouts
from relayvm.shape_funcs.defs.convolution.conv_transpose import transposed_layouts
from relayvm.shape_funcs.defs.products.recurrence import INPUTS
from relayvm.shape_funcs.defs.sampling.image import dilation_layouts

from ....emulator import proof
from ...every_op.all_recipes import RECIPES as RECIPES  # declares them
from ...every_op.drawing import Draw
from ...every_op.recipe import dtypes_of, recipe_of
from ..on_gpu import source_of


@pytest.fixture(autouse=True)
def has_nvrtc() -> None:
    if reason := proof.missing():
        pytest.skip(reason)


def array(rank: int, dtype: str) -> np.ndarray:
    return np.empty((5,) * rank, numpy_dtype(dtype))


def calls(name: str) -> Iterator[tuple[list[np.ndarray], dict[str, Any]]]:
    """Inputs and attributes of calls that cover every kernel text of the operator, except for constants.

    The calls of its recipe, unless it has other texts.
    """
    if name in ("nn.dense", "nn.matmul", "nn.batch_matmul"):
        for number, dtype in enumerate(NUMBERS):
            ranks = (3, 3) if name == "nn.batch_matmul" else (3, 2)
            transposed = {} if name == "nn.dense" else {"transpose_a": number % 2 > 0, "transpose_b": number % 4 > 1}
            yield [array(rank, dtype) for rank in ranks], transposed
        yield [array(rank, "float32") for rank in ranks], {"out_dtype": "float64"}
    elif name == "nn.tiled_batch_matmul":
        for number, dtype in enumerate(FLOATS):
            inputs = [array(3, dtype), array(3, dtype), np.empty(3, np.int64)]
            yield inputs, {"static": (0,), "transpose_a": number % 2 > 0, "transpose_b": number > 1}
    elif name == "reinterpret":
        same = [(a, b) for a in DTYPES for b in DTYPES if ITEMSIZE[a] == ITEMSIZE[b] and b != "bool"]
        yield from (([array(1, a)], {"dtype": b}) for a, b in same[::3])
    elif name == "nn.attention":
        yield from (([array(4, dtype)] * 4, {"scale": 0.25}) for dtype in FLOATS)
    elif name == "nn.batch_attention":
        yield from (([array(4, dtype)] * 3, {"scale": 0.25}) for dtype in FLOATS)
    elif name == "nn.grouped_attention":
        yield from (
            ([array(4, dtype)] * 4, {"scale": 0.25, "cap": cap}) for dtype, cap in zip(FLOATS, (0.0, 2.0) * 2, strict=True)
        )
    elif name in ("nn.softmax", "nn.log_softmax"):
        yield from (([array(3, dtype)], {"axis": 1}) for dtype in FLOATS)
    elif name in ("sort", "argsort", "topk", "dyn.topk"):
        more = [np.empty((), np.int64)] if name == "dyn.topk" else []
        dtypes = {"sort": DTYPES[::2], "argsort": DTYPES[1::2]}.get(name, DTYPES)  # keys are those of topk
        yield from (([array(2, dtype), *more], {"is_ascend": number % 2 > 0}) for number, dtype in enumerate(dtypes))
    elif name in ("cumsum", "cumprod"):
        yield from (([array(3, dtype)], {"axis": 1, "exclusive": number % 2 > 0}) for number, dtype in enumerate(NUMBERS))
        yield from (
            ([array(3, source)], {"axis": 1, "dtype": out}) for source, out in (("bool", "uint8"), ("float64", "float16"))
        )
    elif name == "scatter_elements":
        modes = ("update", "add", "mul", "min", "max")
        for number, dtype in enumerate(NUMBERS):
            inputs = [array(2, dtype), array(2, ("int32", "int64")[number % 2]), array(2, dtype)]
            yield inputs, {"axis": 1, "reduction": modes[number % 5]}
        yield from (([array(1, dtype), array(1, "int32"), array(1, dtype)], {"reduction": "mean"}) for dtype in FLOATS)
    elif name == "scatter_nd":
        for mode, dtype in zip(
            ("update", "add", "mul", "min", "max"), ("bool", "int8", "uint64", "float64", "bfloat16"), strict=True
        ):
            yield (
                [array(3, dtype), np.empty((2, 7), np.int64), np.empty((7, 5), numpy_dtype(dtype))],
                {"mode": mode, "static": True},
            )
    elif name in ("sparse_to_dense", "dyn.sparse_to_dense"):
        more, attrs = ([np.empty(2, np.int64)], {}) if name.startswith("dyn") else ([], {"output_shape": (3, 4)})
        for dtype in DTYPES[:: 3 if more else 1]:
            yield [np.empty((7, 2), np.int32), array(0, dtype), array(0, dtype), *more], {**attrs, "static": True}
    elif name == "invert_permutation":
        yield from (([array(1, dtype)], {}) for dtype in ("int32", "int64"))
    elif name == "argwhere":
        yield from (([array(3, dtype)], {}) for dtype in DTYPES)
    elif name == "unique":
        flags = ((False, False), (False, True), (True, False), (True, True))
        for dtype, (s, c) in zip(("float32", "int64", "uint8", "bfloat16"), flags, strict=True):
            yield [array(1, dtype)], {"is_sorted": s, "return_counts": c}
    elif name == "searchsorted":
        yield from (([array(2, d), array(2, d)], {"right": number % 2 > 0}) for number, d in enumerate(NUMBERS))
    elif name == "vision.get_valid_counts":
        yield from (([array(3, dtype), array(0, other)], {}) for dtype, other in zip(FLOATS, FLOATS[::-1], strict=True))
    elif name == "vision.non_max_suppression":
        for number, dtype in enumerate(FLOATS):
            inputs = [array(3, dtype), array(1, "int32"), array(2, "int32"), array(0, "int64"), array(0, dtype)]
            yield inputs, {"return_indices": number % 2 > 0, "invalid_to_bottom": number > 1, "force_suppress": number > 2}
    elif name == "sparse_fill_empty_rows":
        for dtype in NUMBERS:
            rows = [np.empty((7, 2), np.int64), np.empty(7, numpy_dtype(dtype)), np.empty(2, np.int64)]
            yield [*rows, array(0, dtype)], {"static": True}
    elif name == "nn.winograd_conv2d":
        yield from (
            ([array(4, dtype), array(4, dtype), array(3, dtype)], {"groups": 1 + n % 2}) for n, dtype in enumerate(FLOATS)
        )
    elif name == "nn.expanded_conv2d":
        for dtype, strides in (("float32", 1), ("float64", 2)):
            inputs = [array(4, dtype), np.empty((7, 5, 1, 1), dtype), np.empty(7, dtype), np.empty((7, 1, 3, 3), dtype)]
            yield inputs, {"channels": 7, "strides": strides}
    elif name == "nn.dense_panels":
        yield from (([array(2, dtype), array(3, dtype)], {"units": 23}) for dtype in FLOATS)
    elif name == "nn.dense_bit_panels":
        for bits, zeros in ((2, "uint8"), (4, "float32"), (8, "uint8")):
            tensors = [np.empty((2, 5, 32 * bits), np.uint8), np.empty((2, 5, 16), np.float32), np.empty((2, 5, 16), zeros)]
            yield [array(2, "float32"), *tensors], {"units": 23, "bits": bits, "block": 16}
    elif name == "nn.dense_byte_panels":
        for dtype in ("uint8", "int8"):
            yield [array(2, dtype), np.empty((2, 2, 16, 4), "int8"), np.empty(23, "int32")], {}
    elif name == "nn.sparse_dense":
        for number, dtype in enumerate(FLOATS):
            stored = [array(3 if number > 1 else 1, dtype), array(1, "int32"), array(1, "int64")]
            yield [array(2, dtype), *stored], {"sparse_lhs": number % 2 > 0}
    elif name.startswith("random."):
        attrs = {"random.threefry_generate": {"shape": (3, 7)}, "random.threefry_rows": {"count": 3}}
        data = [array(2, "float32")] if name == "random.threefry_rows" else []
        yield [np.empty(10, np.uint64), *data], attrs.get(name, {})
    else:
        yield from calls_on_planes(name)


def calls_on_planes(name: str) -> Iterator[tuple[list[np.ndarray], dict[str, Any]]]:
    """Calls of the operators on images."""
    if name.endswith("_transpose"):
        rank = int(name[len("nn.conv")])
        yield from (([array(rank + 2, dtype)] * 2, {"groups": 1 + number % 2}) for number, dtype in enumerate(FLOATS))
        yield [array(rank + 2, "float32")] * 2, {"kernel_layout": transposed_layouts(rank)[1], "out_dtype": "float64"}
    elif name == "image.dilation2d":
        yield from (([array(4, dtype), array(3, dtype)], {"kernel_layout": k}) for dtype in FLOATS for k in dilation_layouts())
    elif name in ("dft", "stft"):
        yield from _transforms(name)
    elif name in ("vision.all_class_non_max_suppression", "vision.regular_non_max_suppression"):
        yield from _suppressions(name)
    elif name.startswith("nn.conv"):
        rank = int(name[-2])
        yield from (([array(rank + 2, dtype)] * 2, {"groups": 1 + number % 2}) for number, dtype in enumerate(FLOATS))
        if rank == 2:
            yield from (([array(4, "float16")] * 2, {"kernel_layout": k, "data_layout": "NHWC"}) for k in kernel_layouts(2)[1:])
    elif name == "vision.roi_pool":
        yield from (([array(4, dtype), array(2, dtype)], {"pooled_size": 7, "spatial_scale": 0.5}) for dtype in FLOATS)
    elif "_pool" in name:
        dtypes = NUMBERS if name == "nn.max_pool2d" else FLOATS
        rank = int(name[-2])
        yield from (([array(rank + 2, dtype)], {"layout": data_layouts(rank)[n % 2]}) for n, dtype in enumerate(dtypes))
    elif name == "vision.roi_align":
        modes = ("avg", "max") * len(FLOATS)
        yield from (
            ([array(4, dtype), array(2, dtype)], {"pooled_size": 7, "spatial_scale": 0.5, "mode": mode})
            for dtype, mode in zip(FLOATS, modes, strict=False)
        )
    elif name == "image.crop_and_resize":
        yield from (([array(4, dtype), array(2, "float32"), array(1, "int32")], {"crop_size": 7}) for dtype in FLOATS)
    elif name in INPUTS:
        for dtype, flag in (("float32", False), ("float64", True)):
            shapes = {"peepholes": (1, 15), "reset_bias": (1, 5)}
            inputs = [np.empty(shapes.get(n, (1, 3, 5)), dtype) for n in INPUTS[name][1][:-1]]
            gates = INPUTS[name][0] * 5
            flags = {"nn.lstm": {"input_forget": flag}, "nn.gru": {"linear_before_reset": flag}}
            given = [np.empty((4, 3, gates), dtype), np.empty((1, gates, 5), dtype), *inputs, np.empty(3, "int32")]
            yield given, flags.get(name, {})
    else:
        made = (recipe_of(name).make(Draw(dtype, "odd"), name) for dtype in dtypes_of(name))
        yield from ((list(call.flat), call.attrs) for call in made)


def _transforms(name: str) -> Iterator[tuple[list[np.ndarray], dict[str, Any]]]:
    frames = {"n_fft": 5, "hop_length": 2, "win_length": 5}
    for number, dtype in enumerate(FLOATS):
        odd = number % 2 > 0
        yield ([array(2, dtype)] * 2, {"inverse": odd}) if name == "dft" else (
            [array(2, dtype), array(1, dtype)], {**frames, "normalized": odd}
        )  # fmt: skip


def _suppressions(name: str) -> Iterator[tuple[list[np.ndarray], dict[str, Any]]]:
    attrs = {"max_detections_per_class": 2, "max_detections": 3, "num_classes": 4, "iou_threshold": 0.5, "score_threshold": 0.1}
    for number, dtype in enumerate(FLOATS):
        pair = [np.empty((5, 5, 4), numpy_dtype(dtype)), array(3, dtype)]
        if name == "vision.regular_non_max_suppression":
            yield pair, attrs
            continue
        scalars = [array(0, "int64" if number % 2 else "int32"), array(0, "float32"), array(1, dtype)]
        yield from (([*pair, *scalars], {"output_format": f}) for f in ("onnx", "tensorflow"))


OPAQUE = [name for name, op in REGISTRY.items() if any(k.cuda for k in op.kernels)]


@pytest.mark.thinned(2)
@pytest.mark.extensive
@pytest.mark.spread("arch")
@pytest.mark.parametrize("arch", proof.ARCHITECTURES)
@pytest.mark.parametrize("name", OPAQUE)
def test_kernels_compile_for_gpus(name: str, arch: str) -> None:
    texts = list(dict.fromkeys(source_of(name, inputs, **attrs).text for inputs, attrs in calls(name)))
    assert texts
    for number, text in enumerate(texts):
        # machine code of each fourth dtype: the front end finds mistakes of a text in a fifth of the time
        proof.check_image(text, arch, proof.FRONT_END if number % 4 else proof.QUICK)


def test_every_opaque_operator_runs_on_cuda_devices() -> None:
    missing = [n for n, op in REGISTRY.items() if op.kernels and not op.kernels_on(GPU)]
    assert not missing
