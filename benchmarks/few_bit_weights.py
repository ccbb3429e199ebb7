"""A model whose constant weights of products are of 4 bits: ``MatMulNBits`` in the place of ``MatMul``."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper, numpy_helper

#: The numbers of a block, which share a scale, and the bits of each.
BLOCK, BITS = 32, 4


def with_few_bits(model: Any, accuracy_level: int) -> Any:
    """A copy of a ModelProto; ``accuracy_level``: 0 for data of float32, 4 for data that are rounded to int8."""
    made = type(model)()
    made.CopyFrom(model)
    weights = {w.name: w for w in made.graph.initializer}
    for node in made.graph.node:
        if node.op_type == "MatMul" and node.input[1] in weights:
            stored = weights.pop(node.input[1])
            made.graph.initializer.remove(stored)
            matrix = numpy_helper.to_array(stored)
            numbers, scales = _rounded(matrix)
            names = [f"{stored.name}_{part}" for part in ("numbers", "scales")]
            made.graph.initializer.extend(map(numpy_helper.from_array, (numbers, scales), names))
            sizes = {"K": matrix.shape[0], "N": matrix.shape[1], "bits": BITS, "block_size": BLOCK}
            product = helper.make_node(
                "MatMulNBits",
                [node.input[0], *names],
                node.output,
                domain="com.microsoft",
                accuracy_level=accuracy_level,
                **sizes,
            )
            node.CopyFrom(product)
    return made


def _rounded(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of a matrix ``[K, N]``, ``[N, K / BLOCK, BLOCK / 2]``, and the scales of blocks, ``[N, K / BLOCK]``.

    The largest magnitude of a block is 8 below the zero point, as the tools of onnxruntime round weights.
    """
    blocks = np.ascontiguousarray(matrix.T).reshape(matrix.shape[1], -1, BLOCK)
    largest = np.take_along_axis(blocks, np.abs(blocks).argmax(-1, keepdims=True), -1)
    scales = largest / -8
    numbers = np.clip(np.rint(blocks / np.where(scales == 0, 1, scales)) + 8, 0, 15).astype(np.uint8)
    return numbers[..., ::2] | numbers[..., 1::2] << 4, scales[..., 0].astype(matrix.dtype)
