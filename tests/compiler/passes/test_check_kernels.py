"""check_kernels: an operator without a GPU kernel is rejected at its place when compiling for a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.implementation import Kernel
from relayvm.ops.core.op import REGISTRY, Op, OpPattern
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, register_shape_func

NAME = "test.processor_only"
TEXT = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?n), float32]) {{\n  let %y = {NAME}(%x);\n  {NAME}(%y + 1f)\n}}\n'


def body(x: np.ndarray, out: np.ndarray) -> int:
    return 0


@pytest.fixture
def processor_only(request: pytest.FixtureRequest) -> Iterator[None]:
    register_shape_func(NAME, data_dependent=False)(lambda inputs, attrs: [inputs[0].shape])
    kernel = Kernel("processor_only", body, in_python=request.param)
    Op(
        name=NAME,
        doc="Does nothing.",
        inputs=("data",),
        pattern=OpPattern.OPAQUE,
        dtype=lambda dtypes, attrs: dtypes[0],
        kernels=(kernel,),
    )
    yield
    del REGISTRY[NAME], SHAPE_FUNCS[NAME]


@pytest.mark.parametrize("processor_only", [False], indirect=True)
def test_every_call_is_named(processor_only: None) -> None:
    with pytest.raises(relay.TypeCheckError) as refused:
        relay.compile(TEXT, target="cuda")
    text = str(refused.value)
    assert text.count(f"error: {NAME} has no kernel for cuda") == 2
    assert "<string>:3:12" in text and "<string>:4:3" in text
    assert "help: an operator's kernel declares its GPU form: `Kernel(..., cuda=...)`" in text


@pytest.mark.parametrize("processor_only", [True], indirect=True)
def test_a_kernel_over_numpy_runs_on_copies(processor_only: None) -> None:
    assert relay.compile(TEXT, target="cuda").stats["kernels"] == 2
