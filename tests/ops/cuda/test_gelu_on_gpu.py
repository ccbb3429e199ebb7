"""``gelu`` on the emulated GPU: the bits of the CPU for float32, and less than the rounding of float16 and bfloat16."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.ops.codegen.cuda import cuda_source
from relayvm.ops.core.group import Group
from relayvm.ops.core.tensor_types import numpy_dtype

from ..fused.reductions.row_groups import kernels
from ..fused.run_group import compiled
from ..fused.run_group import evaluate as evaluate_on_cpu
from .groups_on_gpu import evaluate

#: The suffix of a dtype's constants; sqrt(0.5) in 11 bits, as in 8 bits.
SUFFIX, ROOT_OF_HALF = {"float32": "f", "float16": "f16", "bfloat16": "bf16"}, 0.70703125


def group_of(dtype: str) -> Group:
    of = SUFFIX[dtype]
    body = f"%x * 0.5{of} * (1{of} + erf(%x * 0.70710678{of}))"
    ((group, _),) = kernels(f"def @main(%x: Tensor[(?n), {dtype}]) {{ {body} }}")
    return group


def test_float32_has_the_bits_of_the_processor() -> None:
    magnitudes = np.linspace(0, 0x7F800000, 1 << 14).astype("uint32").view("float32")
    x = np.concatenate([magnitudes, -magnitudes, np.linspace(-7, 7, 1 << 14, dtype="float32"), [np.float32("nan")]])
    group = group_of("float32")
    assert "gelu_float32(" in cuda_source(group).text
    status, (ours,) = evaluate(group, [x])
    wanted_status, (wanted,) = evaluate_on_cpu(group, [x], compiled)
    assert status == wanted_status == 0
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(wanted))
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(ours[known].view("uint32"), wanted[known].view("uint32"))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_add_little_to_their_rounding(dtype: str) -> None:
    x = np.arange(65536, dtype="uint16").view(numpy_dtype(dtype))
    x = x[np.isfinite(x.astype("float32"))]
    group = group_of(dtype)
    assert "gelu_of_half(v" in cuda_source(group).text
    status, (ours,) = evaluate(group, [x])
    assert status == 0
    wide = x.astype("float64")
    exact = wide * 0.5 * special.erfc(-wide * ROOT_OF_HALF)
    nearest = np.abs(exact).astype(x.dtype)
    with np.errstate(over="ignore"):
        unit = np.nextafter(nearest, np.asarray(np.inf, x.dtype)).astype("float64") - nearest.astype("float64")
    assert (np.abs(ours.astype("float64") - exact) <= 0.5 * unit + 2.5e-6 * np.abs(wide)).all()
