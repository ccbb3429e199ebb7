"""Convolutions of halves with channels last: the same numbers, and no turns between operators that know both orders."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, IRModule
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.lowered import bind_params
from relayvm.compiler.passes.eliminate_dead_code import eliminate_dead_code
from relayvm.compiler.passes.expand_composites import expand_composites
from relayvm.compiler.passes.fold_constant import fold_constant
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.precision.channels_last import channels_last
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form

from ....programs import HEADER
from ..generated_programs import typed

PARAMS = {"w": (4, 3, 3, 3), "d": (4, 1, 3, 3), "s": (4, 4, 1, 1), "b": (4,), "c": (4, 1, 1), "v": (2, 8, 1, 1)}
#: Statements between a convolution %y, of 4 channels, and the result %z.
BODIES = {
    "bias": "let %z = nn.relu(nn.bias_add(%y, %b));",
    "pool": "let %z = nn.max_pool2d(%y, pool_size=[2, 2], strides=[2, 2]);",
    "depthwise": "let %z = nn.conv2d(add(%y, %c), %d, padding=[1, 1], groups=4);",
    "excited": "let %z = multiply(%y, sigmoid(nn.conv2d(mean(%y, axis=[2, 3], keepdims=True), %s)));",
    "joined": "let %z = nn.conv2d(concatenate((%y, nn.relu(%y)), axis=1), %v);",
    "residual": "let %z = add(%y, nn.conv2d(%y, %s));",
    "grown": "let %z = nn.conv2d(repeat(repeat(%y, repeats=2, axis=2), repeats=3, axis=3), %s);",
    "resized": 'let %z = nn.conv2d(image.resize2d(%y, size=[7, 9], method="linear"), %s);',
    "places": "let %z = mean(%y, axis=[2, 3]);",
    "used apart": "let %z = multiply(nn.softmax(%y, axis=1), %y);",
    "branch": "let %z = if (%is) { nn.relu(%y) } else { nn.conv2d(%y, %s) };",
}


def modules(body: str) -> tuple[IRModule, IRModule]:
    """A program with constant weights, and the same after the pass."""
    random = np.random.default_rng(1)
    weights = {name: random.uniform(-1, 1, shape).astype("float16") for name, shape in PARAMS.items()}
    types = "".join(
        f", %{name}: Tensor[{shape if len(shape) > 1 else f'({shape[0]})'}, float16]" for name, shape in PARAMS.items()
    )
    text = f"def @main(%x: Tensor[(?n, 3, ?h, ?w), float16], %is: bool{types}) {{ let %y = nn.conv2d(%x, %w); {body} %z }}"
    bound = infer_type(to_a_normal_form(bind_params(relay.parse(HEADER + text), weights)))
    mod = fold_constant(expand_composites(bound))
    return mod, eliminate_dead_code(channels_last(mod), entries=("main",))


@pytest.mark.split(2)
@pytest.mark.parametrize("name", BODIES)
def test_numbers_stay(name: str) -> None:
    before, after = modules(BODIES[name])
    check(after, "channels_last", typed=True)
    x = np.random.default_rng(2).uniform(-1, 1, (2, 3, 6, 5)).astype("float16")
    found, want = (relay.VirtualMachine(relay.compile(mod)).run(x, np.bool_(False)).numpy() for mod in (after, before))
    assert found.dtype == want.dtype and found.shape == want.shape
    np.testing.assert_allclose(found.astype("f"), want.astype("f"), rtol=4e-3, atol=4e-3)


@pytest.mark.parametrize("name", BODIES)
def test_tensors_are_turned_at_the_ends(name: str) -> None:
    """At the program's parameter, and at its result if it has places."""
    _, after = modules(BODIES[name])
    turns = [v for v in values(after["main"].body) if isinstance(v, Call) and v.op.name == "transpose"]
    most = {"places": 1, "used apart": 2, "branch": 3}.get(name, 2)
    assert len(turns) <= most
    convolutions = [v for v in values(after["main"].body) if isinstance(v, Call) and v.op.name == "nn.conv2d"]
    assert {c.attrs.data_layout for c in convolutions} == {"NHWC"}


def test_float32_stays() -> None:
    text = 'def @main(%x: Tensor[(1, 3, 6, 6), float32]) { nn.conv2d(%x, ones(shape=[4, 3, 3, 3], dtype="float32")) }'
    mod = typed(text)
    assert channels_last(mod) is mod
