"""Elements at positions that a column holds: gathered by vectors where the CPU does that fast."""

from __future__ import annotations

import numpy as np
import pytest

from relayvm.ops.codegen.cpu import fused_kernel
from relayvm.ops.core.op import get

from ..run_group import one_call


@pytest.mark.parametrize("is_fast", [False, True])
def test_a_resized_image(is_fast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fused_kernel, "has_fast_gathers", lambda: is_fast)
    # a group of its own: the texts of equal groups are kept
    image = np.ones((1, 3, 5 + is_fast, 7), "float32")
    attrs = get("image.resize2d").attrs(size=(10, 14), method="linear")
    text = fused_kernel.source(one_call("image.resize2d", [image], attrs, static=True)).text
    assert ("rest_range(" in text) == is_fast
