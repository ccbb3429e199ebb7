"""Operators on weights in other forms: the identities behind them, in exact numbers, and the texts of what they refuse."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from relayvm.ops.core.op import get
from relayvm.ops.defs.weight_forms.winograd_matrices import KERNELS, TILES, winograd

from .every_op.weights import from_transformed, transformed
from .images.test_conv import convolution
from .refusals import refused

RNG = np.random.default_rng(5)


def exact(rows: Any) -> np.ndarray:
    return np.array(rows, dtype=object)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("tile", TILES)
def test_winograd_is_a_correlation(tile: int, kernel: int) -> None:
    own = winograd(tile, kernel)
    data = exact([Fraction(int(n)) for n in RNG.integers(-9, 9, tile + kernel - 1)])
    weight = exact([Fraction(int(n)) for n in RNG.integers(-9, 9, kernel)])
    found = exact(own.results).T @ ((exact(own.kernel) @ weight) * (exact(own.data).T @ data))
    assert found.tolist() == [data[k : k + kernel] @ weight for k in range(tile)]


def test_scale_of_the_matrices() -> None:
    """The free factors are in the matrix of the kernel: the first column has the inverse products of distances of points."""
    half = Fraction(1, 2)
    assert winograd(2, 3).kernel == ((1, 0, 0), (half, -half, half), (half, half, half), (0, 0, 1))
    assert winograd(2, 3).data == ((1, 0, 0, 0), (0, -1, 1, -1), (-1, 1, 1, 0), (0, 0, 0, 1))
    assert winograd(2, 3).results == ((1, 0), (1, -1), (1, 1), (0, 1))


@pytest.mark.extensive(tile=[2])
@pytest.mark.parametrize(("tile", "kernel"), [(2, (3, 3)), (4, (3, 3)), (3, (5, 5)), (6, (4, 4)), (2, (3, 3, 3)), (4, (2, 3, 3))])
def test_winograd_against_the_definition(tile: int, kernel: tuple[int, ...]) -> None:
    data = RNG.standard_normal((2, 3, *(7 + k for k in range(len(kernel)))))
    weight = RNG.standard_normal((2, 3, *kernel))
    for x in (data, data[..., : kernel[-1] - 3]):  # the second has no window
        found = from_transformed(x, transformed(weight, tile), tile, kernel, 1)
        np.testing.assert_allclose(found, convolution(x, weight, {"padding": 1}), rtol=1e-9, atol=1e-9)


def of(name: str, *shapes: tuple[int, ...], dtype: str = "float32", **attrs: Any) -> str:
    return refused(name, [(shape, dtype) for shape in shapes], get(name).attrs(**attrs))


def test_what_is_refused() -> None:
    pack, tiles = "nn.contrib_dense_pack", "nn.contrib_conv2d_gemm"
    assert of(pack, (2, 4), (8, 4), weight_layout="NC4n") == (
        f"{pack}: layout_transform: src_layout 'NC4n' has 3 dimensions, the data 2"
    )
    assert of(pack, (2, 4), (8,)) == f"{pack}: with weight_layout 'NC' the weight must have 2 or 3 dimensions, not 1"
    assert "'NO' and dst_layout 'NC' must have the same capital letters" in of(pack, (2, 4), (8, 4), weight_layout="NO")
    assert of(f"{tiles}_weight_transform", (3, 3, 4, 8), tile_rows=0, tile_cols=1) == (
        f"{tiles}_weight_transform: tile_rows must be at least 1, not 0"
    )
    conv = f"{tiles}_without_weight_transform"
    given: dict[str, Any] = {"data_layout": "NHWC", "channels": 8, "kernel_size": (3, 3)}
    assert of(conv, (1, 5, 5, 4), (2, 3, 4, 16), **given, groups=2) == f"{conv}: groups must be 1, not 2"
    assert of(conv, (1, 5, 5, 4), (2, 3, 4, 16), data_layout="NHWC") == (
        f"{conv}: kernel_size and channels must be given: tiles do not show them"
    )
    assert of(conv, (1, 5, 5, 4), (1, 3, 4, 16), **given) == f"{conv}: the weight has 4 output channels, the convolution needs 8"
    assert of(conv, (1, 5, 5, 4), (2, 2, 4, 16), **given) == (
        f"{conv}: the weight has 32 rows in its matrix, the convolution needs 36"
    )


def test_what_winograd_refuses() -> None:
    weight, conv = (f"nn.contrib_conv2d_winograd_{end}" for end in ("weight_transform", "without_weight_transform"))
    assert of(weight, (4, 4, 3, 3), tile_size=9) == f"{weight}: tile_size must be 2 to 8, not 9"
    assert of(weight, (4, 4, 1, 3), tile_size=2) == (
        f"{weight}: height and width of the kernel must be equal, 3 to 7; it is 1 x 3"
    )
    assert of(weight, (4, 4, 3), tile_size=2) == f"{weight}: the weight must have 4 dimensions, not 3"
    shapes, given = ((1, 4, 5, 5), (4, 4, 8, 4)), {"tile_size": 2, "kernel_size": (3, 3)}
    assert of(conv, *shapes, tile_size=2) == f"{conv}: kernel_size must be given: a transformed weight does not show it"
    assert of(conv, *shapes, **given, strides=2) == f"{conv}: strides must be 1 in Winograd's algorithm, not 2"
    assert of(conv, *shapes, tile_size=4, kernel_size=(3, 3)) == (
        f"{conv}: axis 0 of the weight has size 4; tile_size and kernel_size say 6"
    )
    assert of(conv, *shapes, **given, channels=5) == f"{conv}: channels says 5, the weight gives 8"
    assert of(conv, (1, 3, 5, 5), shapes[1], **given) == f"{conv}: the weight takes 4 channels, the data has 3"
    assert of(conv, (1, 4, 1, 5), shapes[1], **given) == (f"{conv}: along H the window covers 3 elements, the padded data has 1")


def test_what_bits_refuse() -> None:
    assert of("nn.bitpack", (1, 33), dtype="int32") == (
        "nn.bitpack: axis 1 has size 33, which is no multiple of the 32 bits of a word"
    )
    assert of("nn.bitpack", (1, 32), dtype="int32", bits=9) == "nn.bitpack: bits must be 1 to 8, not 9"
    assert of("nn.bitpack", (1, 32), dtype="int32", pack_type="int32") == (
        "nn.bitpack: pack_type='int32' is not valid; valid: 'uint8', 'uint16', 'uint32', 'uint64'"
    )
    dense, conv = "nn.bitserial_dense", "nn.bitserial_conv2d"
    assert of(dense, (1, 32), (4, 1, 1), dtype="uint8") == f"{dense}: the packed weight is uint8, pack_dtype says uint32"
    assert of(dense, (1, 32), (4, 2, 1), dtype="uint32") == (
        f"{dense}: axis 1 of the packed weight must have size 1, one word per bit, known at compile time"
    )
    assert of(conv, (1, 32, 5, 5), (4, 32, 3), dtype="int8") == (
        f"{conv}: the weight must have 4 dimensions, or 5 if it is packed, not 3"
    )
    assert of(conv, (1, 32, 5, 5), (4, 32, 3, 3), dtype="int8", kernel_layout="HWIO") == (
        f"{conv}: kernel_layout must be 'OIHW', not 'HWIO'"
    )
