"""Programs of halves computed in float32: near numbers, the same types, no kernel of its own for a cast between operators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, IRModule
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.lowered import bind_params
from relayvm.compiler.passes.eliminate_dead_code import eliminate_dead_code
from relayvm.compiler.passes.expand_composites import expand_composites
from relayvm.compiler.passes.fold_constant import fold_constant
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.precision.widen_halves import widen_halves
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import HALVES, numpy_dtype

from ....programs import HEADER

RNG = np.random.default_rng(3)
W, V = (RNG.uniform(-0.2, 0.2, shape) for shape in ((96, 64), (64, 96)))
IMAGES = "reshape(%x, newshape=[-1, 4, 4, 4])"
WINDOWS = "reshape(strided_slice(%w, begin=[0, 0], end=[1, 36]), newshape=[4, 1, 3, 3])"
#: Statements between %x, of 64 columns, and the result %z.
BODIES = {
    "products": "let %z = nn.dense(nn.relu(nn.dense(%x, %w)), %v);",
    "product of a parameter": "let %z = nn.matmul(%x, nn.matmul(%x, %x, transpose_a=True));",
    "float32 result": 'let %z = cast(nn.dense(%x, %w, out_dtype="float32"), dtype="DTYPE");',
    "cast there and back": 'let %z = multiply(cast(cast(exp(%x), dtype="float32"), dtype="DTYPE"), %x);',
    "softmax": "let %z = multiply(nn.softmax(%x), nn.softmax(nn.relu(%x)));",
    "moved": "let %z = concatenate((%x, reverse(tanh(%x), axis=1)), axis=1);",
    "parts": "let %s = split(tanh(%x), indices_or_sections=2, axis=1); let %z = concatenate((%s.1, %s.0, %s.0), axis=1);",
    "branch": "let %y = tanh(%x); let %z = if (%is) { nn.dense(%y, %w) } else { let %a = nn.dense(%y, %w); add(%a, %a) };",
    "used twice": "let %y = nn.dense(%x, %w); let %z = add(nn.dense(%y, %v), nn.dense(nn.relu(%y), %v));",
    "sums": "let %z = add(cumsum(%x, axis=1), mean(%x, axis=[1], keepdims=True));",
    "channels apart": f"let %z = reshape(nn.conv2d({IMAGES}, {WINDOWS}, padding=[1, 1], groups=4), newshape=[-1, 64]);",
    "largest": f"let %z = reshape(nn.max_pool2d({IMAGES}, pool_size=[3, 3], padding=[1, 1]), newshape=[-1, 64]);",
    "resized": f"let %z = reshape(image.resize2d({IMAGES}, size=[2, 8]), newshape=[-1, 64]);",
    "gradient": f"let %g = nn.avg_pool2d_grad({IMAGES}, {IMAGES}, pool_size=[3, 3], padding=[1, 1]); "
    "let %z = reshape(%g, newshape=[-1, 64]);",
    "whole numbers": 'let %z = cast(cast(multiply(%x, %x), dtype="int32"), dtype="DTYPE");',
}


def module(body: str, dtype: str) -> IRModule:
    """A program with constant weights, in typed A-normal form."""
    weights = {"w": W.astype(numpy_dtype(dtype)), "v": V.astype(numpy_dtype(dtype))}
    types = ", ".join(f"%{n}: Tensor[{w.shape}, {dtype}]" for n, w in weights.items())
    text = f"def @main(%x: Tensor[(?n, 64), {dtype}], %is: bool, {types}) {{ {body.replace('DTYPE', dtype)} %z }}"
    return fold_constant(infer_type(to_a_normal_form(bind_params(relay.parse(HEADER + text), weights))))


def widened(mod: IRModule) -> IRModule:
    return eliminate_dead_code(widen_halves(mod), entries=("main",))


@pytest.mark.split(2)
@pytest.mark.parametrize("name", BODIES)
def test_numbers_are_near_and_types_stay(name: str) -> None:
    for dtype in HALVES:
        mod = module(BODIES[name], dtype)
        out = widened(mod)
        check(out, "widen_halves", typed=True)
        assert str(out["main"].ty) == str(mod["main"].ty)
        # without the pass: rounded at every store
        plain, ours = (relay.VirtualMachine(relay.compile(mod, opt_level=level)) for level in (1, 2))
        for rows in (0, 1, 50):
            x = RNG.uniform(-1, 1, (rows, 64)).astype(numpy_dtype(dtype))
            found, want = (vm.run(x, np.bool_(rows == 1)).numpy() for vm in (ours, plain))
            assert found.dtype == want.dtype == x.dtype and found.shape == want.shape
            unit = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
            most = 6 * unit * max(1.0, float(abs(want.astype("f")).max(initial=0)))
            np.testing.assert_allclose(found.astype("f"), want.astype("f"), rtol=0, atol=most)


@pytest.mark.parametrize("dtype", HALVES)
def test_weights_of_products_stay_halves_and_values_between_do_not(dtype: str) -> None:
    calls = [v for v in values(widened(module(BODIES["products"], dtype))["main"].body) if isinstance(v, Call)]
    assert [c.op.name for c in calls] == ["cast", "nn.dense_panels", "nn.relu", "nn.dense_panels", "cast"]
    assert [c.args[1].ty.dtype for c in calls if len(c.args) == 2] == [dtype, dtype]
    assert {c.ty.dtype for c in calls[:-1]} == {"float32"} and calls[-1].ty.dtype == dtype


@pytest.mark.parametrize("dtype", HALVES)
def test_images_of_a_parameter(dtype: str) -> None:
    """Pooled and convolved channel by channel as they are; resized after a cast that is a kernel of its own."""
    for name, names in [
        ("largest", ["nn.max_pool2d"]),
        ("channels apart", ["nn.conv2d"]),
        ("resized", ["cast", "annotation.stop_fusion", "image.resize2d"]),
    ]:
        calls = [v for v in values(widened(module(BODIES[name], dtype))["main"].body) if isinstance(v, Call)]
        found = [c.op.name for c in calls if c.op.name != "reshape"]
        assert found == ([*names, "cast"] if name != "largest" else names)
        assert [c.ty.dtype for c in calls if c.op.name == names[-1]] == ["float32" if name != "largest" else dtype]


def test_what_a_gradient_reads_again_is_widened_before() -> None:
    """The gradients are, though the program widens them itself; the data, of which only the sizes are read, are not."""
    mod = infer_type(to_a_normal_form(expand_composites(module(BODIES["gradient"], "float16"))))
    calls = [v for v in values(widened(mod)["main"].body) if isinstance(v, Call)]
    names = [c.op.name for c in calls]
    assert names[names.index("nn.avg_pool2d_portions") - 1] == "annotation.stop_fusion"
    assert names.count("annotation.stop_fusion") == 1


def test_a_cast_of_the_program_rounds() -> None:
    text = 'def @main(%x: Tensor[(?n), float32]) { let %h = cast(%x, dtype="float16"); multiply(cast(%h, dtype="float32"), 2f) }'
    x = RNG.standard_normal(100).astype(np.float32)
    found = relay.VirtualMachine(relay.compile(HEADER + text)).run(x).numpy()
    np.testing.assert_array_equal(found, x.astype(np.float16).astype(np.float32) * 2)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(HALVES), st.integers(0, 3), st.sampled_from([0, 1, 5, 36, 37, 130]), st.sampled_from([1, 15, 600, 1030]))
def test_products_with_panels_of_halves(dtype: str, more: int, rows: int, inner: int) -> None:
    """The sums of float32, whichever way the panels are widened: in order along the inner axis."""
    units = 64 + 17 * more
    w = (RNG.integers(-8, 9, (units, inner)) / 8).astype(numpy_dtype(dtype))
    types = f"%x: Tensor[(?n, {inner}), {dtype}], %w: Tensor[({units}, {inner}), {dtype}]"
    text = f'def @main({types}) {{ nn.dense(%x, %w, out_dtype="float32") }}'
    exe = relay.compile(bind_params(relay.parse(HEADER + text), {"w": w}))
    x = (RNG.integers(-8, 9, (rows, inner)) / 8).astype(numpy_dtype(dtype))
    found = relay.VirtualMachine(exe).run(x).numpy()
    np.testing.assert_array_equal(found, x.astype(np.float64) @ w.astype(np.float64).T)  # sums of eighths are exact


#: Products and convolutions of float32 data by a weight, and the shapes of both.
OF_STORED = {
    "dense": ("nn.dense(%x, %wide)", (5, 64), (96, 64)),
    "matmul": ("nn.matmul(%x, %wide)", (5, 96), (96, 64)),
    "transposed": ("nn.matmul(%x, %wide, transpose_b=True)", (1, 64), (96, 64)),
    "moved": ("nn.matmul(%x, transpose(reshape(%wide, newshape=[96, 64]), axes=[1, 0]))", (3, 64), (96, 8, 8)),
    "convolution": ("nn.conv2d(%x, %wide)", (1, 64, 3, 3), (96, 64, 1, 1)),
    "convolution by a moved weight": ("nn.conv2d(%x, expand_dims(%wide, axis=2, num_newaxis=2))", (1, 64, 3, 3), (96, 64)),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", OF_STORED)
def test_constants_that_a_program_widens_are_not_cast_in_a_run(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Panels of halves give the bits of panels of float32; a constant is too large to be folded."""
    call, shape, of_weight = OF_STORED[name]
    stored, x = W.astype(numpy_dtype(dtype)).reshape(of_weight), RNG.standard_normal(shape).astype(np.float32)
    monkeypatch.setattr("relayvm.compiler.passes.fold_constant.MAX_BYTES", 0)
    results = []
    for weight in (stored, stored.astype(np.float32)):
        types = f"%x: Tensor[{shape}, float32], %w: Tensor[{of_weight}, {weight.dtype}]"
        text = f'def @main({types}) {{ let %wide = cast(%w, dtype="float32"); {call} }}'
        mod = bind_params(relay.parse(HEADER + text), {"w": weight})
        found = values(widened(fold_constant(infer_type(to_a_normal_form(mod))))["main"].body)
        assert not [value for value in found if isinstance(value, Call) and value.op is get("cast")]
        results.append(relay.VirtualMachine(relay.compile(mod)).run(x).numpy())
    np.testing.assert_array_equal(*results)
