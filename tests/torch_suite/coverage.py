"""The core ATen operators that the importer converts, by a converter or by torch's decomposition, and those that it does not."""

from __future__ import annotations

import torch

from relayvm.compiler.torch_frontend import operators as operators  # declares the converters
from relayvm.compiler.torch_frontend.operator_table import converter

from .samples import core_overloads

#: The overloads without a converter, with the reasons.
NOT_COVERED = {
    **dict.fromkeys(("rand.default", "randn.default", "randperm.default"), "random numbers"),
    **dict.fromkeys(("_fft_c2r.default", "_fft_r2c.default"), "no tensor here has complex elements"),
    **dict.fromkeys(
        ("_adaptive_avg_pool2d_backward.default", "avg_pool2d_backward.default", "convolution_backward.default"),
        "programs here are run, not trained",
    ),
    "_embedding_bag.default": "bags of rows have no converter",
}  # fmt: skip


def uncovered() -> list[str]:
    """The core overloads that neither a converter nor torch's decompositions take.

    An export has no ``out`` forms: it has the functions that they are made of.
    """
    taken_apart = {str(operator).removeprefix("aten.") for operator in torch.export.default_decompositions()}
    functions = [name for name in core_overloads() if not name.endswith(".out")]
    return [name for name in functions if converter(f"aten.{name}") is None and name not in taken_apart]
