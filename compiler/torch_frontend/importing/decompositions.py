"""The operators to which a program is taken apart: torch's core ATen operators, and those that are one kernel here."""

from __future__ import annotations

import copy
from typing import Any

from ..torch_package import torch_package

#: Operators that are kept whole: taken apart, they are several kernels.
KEPT = (
    "scaled_dot_product_attention.default", "linear.default", "matmul.default", "silu.default", "hardswish.default",
    "hardsigmoid.default", "mish.default", "softplus.default", "layer_norm.default", "group_norm.default",
    "instance_norm.default", "batch_norm.default", "upsample_bilinear2d.vec", "upsample_nearest2d.vec",
    "upsample_bicubic2d.vec", "lstm.input", "gru.input", "conv1d.default", "conv2d.default", "conv3d.default",
    "adaptive_avg_pool1d.default", "adaptive_avg_pool2d.default", "pixel_shuffle.default", "repeat_interleave.self_int",
    "einsum.default", "reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default",
    "replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default",
)  # fmt: skip


def decomposed(program: Any) -> Any:
    """The program with these operators; what it writes in place is a result."""
    torch = torch_package()
    table = torch.export.default_decompositions()
    for name in KEPT:
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet, None), overload, None)
        if operator in table:
            del table[operator]
    bare = copy.copy(program)
    # torch makes a function of the guards, which fails for a tensor inside of an argument of **kwargs
    bare._guards_code = []
    return bare.run_decompositions(table)
