"""``relay.transform.SimplifyExpr``: the rules that only programs ask for; results equal those of the unchanged program."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay

SHAPE = (2, 3, 4, 5)
X, Y, INTS = relay.var("x", SHAPE), relay.var("y", SHAPE), relay.var("i", (2, 3), "int32")
BYTES, SPLIT = relay.var("b", (2, 3), "uint8"), relay.var("s", (2, 1, 3, 5, 4))
OPEN = relay.var("o", (relay.Any(), 3))


def of(value, dtype: str = "float32") -> relay.Constant:
    return relay.const(np.asarray(value, dtype))


CASES = {
    "x + 0": (X + of(0.0), X),
    "0 + x": (of(0.0) + X, X),
    "x + zeros": (X + relay.zeros(SHAPE, "float32"), X),
    "zeros_like + x": (relay.zeros_like(Y) + X, X),
    "x - full": (X - relay.full(of(0.0), SHAPE), X),
    "x * ones_like": (X * relay.ones_like(Y), X),
    "ones * x": (relay.ones(SHAPE, "float32") * X, X),
    "x / full_like": (X / relay.full_like(Y, of(1.0)), X),
    "another shape": (of([[0.0]] * 2) + of(1.0), of([[0.0]] * 2) + of(1.0)),
    "full + x": (relay.full(of(2.0), SHAPE) + X, of(2.0) + X),
    "ones / x": (relay.ones_like(X) / X, of(1.0) / X),
    "full of more sizes": (X + relay.full(of(2.0), (7, *SHAPE)), X + relay.full(of(2.0), (7, *SHAPE))),
    "x + x": (INTS + INTS, INTS * of(2, "int32")),
    "1 + x + 2": ((of(1.0) + X) + of(2.0), X + of(3.0)),
    "2 * (x + [3, 4])": (of(2, "int32") * (INTS + of([[3], [4]], "int32")),
                         INTS * of(2, "int32") + of([[6], [8]], "int32")),
    "(3 + x * 2) * 4": ((of(3, "int32") + INTS * of(2, "int32")) * of(4, "int32"),
                        INTS * of(8, "int32") + of(12, "int32")),
    "x + 1 + 2": ((X + of(1.0)) + of(2.0), X + of(3.0)),
    "x * 2 * [3, 4]": ((INTS * of(2, "int32")) * of([[3], [4]], "int32"), INTS * of([[6], [8]], "int32")),
    "1 / sqrt": (of(1.0) / relay.sqrt(X), relay.rsqrt(X)),
    "3 / sqrt": (of(3.0) / relay.sqrt(X), of(3.0) * relay.rsqrt(X)),
    "y / sqrt": (Y / relay.sqrt(X), Y * relay.rsqrt(X)),
    "zeros_like": (relay.zeros_like(X), relay.zeros(SHAPE, "float32")),
    "ones_like": (relay.ones_like(INTS), relay.ones((2, 3), "int32")),
    "an open size": (relay.zeros_like(OPEN), relay.zeros_like(OPEN)),
    "full_like": (relay.full_like(X, of(3.0)), relay.full(of(3.0), SHAPE, "float32")),
    "reshape_like": (relay.reshape_like(X, of(np.zeros((6, 20)))), relay.reshape(X, (6, 20))),
    "broadcast_to_like": (relay.broadcast_to_like(of(1.5), X), relay.broadcast_to(of(1.5), SHAPE)),
    "cast_like": (relay.cast_like(X, INTS), relay.cast(X, "int32")),
    "casts": (relay.cast(relay.cast(INTS, "int64"), "int8"), relay.cast(INTS, "int8")),
    "transposes": (relay.transpose(relay.transpose(X, [0, 2, 3, 1]), [0, 3, 1, 2]), X),
    "layout of transpose": (relay.layout_transform(relay.transpose(X, [0, 2, 3, 1]), "NHWC", "NCHW"), X),
    "transpose of layout": (
        relay.transpose(relay.layout_transform(X, "NCHW", "NHWC"), [3, 0, 1, 2]), relay.transpose(X, [1, 0, 2, 3])
    ),
    "split axes": (
        relay.transpose(relay.layout_transform(relay.reshape(X, (2, 4, 3, 5)), "NCHW", "NHWC"), None),
        relay.transpose(relay.reshape(X, (2, 4, 3, 5)), [1, 3, 2, 0]),
    ),
    "collapse_sum_like": (relay.collapse_sum_like(X, of(np.zeros((3, 1, 5)))), relay.collapse_sum_to(X, (3, 1, 5))),
    "argmax of bytes": (
        relay.argmax(relay.qnn.op.dequantize(BYTES, of(0.5), of(3, "int32")), axis=1), relay.argmax(BYTES, axis=1)
    ),
    "argsort of bytes": (relay.argsort(relay.qnn.op.dequantize(BYTES, of(0.5), of(3, "int32"))), relay.argsort(BYTES)),
    "a negative scale": (relay.argmin(relay.qnn.op.dequantize(BYTES, of(-0.5), of(3, "int32")), axis=1),) * 2,
    "a layout that splits, of a transpose": (
        relay.layout_transform(relay.transpose(X, [0, 3, 1, 2]), "NCHW", "NCHW5c"),
        relay.layout_transform(X, "NHWC", "NCHW5c"),
    ),
    "a transpose of a layout that joins": (
        relay.transpose(relay.layout_transform(SPLIT, "NCHW4c", "NCHW"), [1, 2, 3, 0]),
        relay.layout_transform(SPLIT, "NCHW4c", "CHWN"),
    ),
    "two layouts": (relay.layout_transform(relay.layout_transform(X, "NCHW", "NHWC"), "NHWC", "CHWN"),
                    relay.transpose(X, [1, 2, 3, 0])),
    "bounds of a byte": (relay.clip(BYTES, 0.0, 255.0), BYTES),
    "bounds of a cast": (relay.clip(relay.cast(INTS, "int8"), -128, 127), relay.cast(INTS, "int8")),
    "bounds of floats": (relay.clip(relay.cast(X, "float16"), -0.25, 0.5),) * 2,
    "clip of a cast of a clip": (relay.clip(relay.cast(relay.clip(INTS, 0, 7.5), "uint8"), 2.5, 9),
                                 relay.cast(relay.clip(INTS, 2.5, 7.5), "uint8")),
    "bounds without a number": (relay.clip(relay.cast(relay.clip(INTS, 0, 3), "uint8"), 4, 9),) * 2,
    "casts of bounded integers": (relay.cast(relay.cast(relay.clip(INTS, 0, 255), "uint8"), "int32"), relay.clip(INTS, 0, 255)),
    "casts of bounded floats": (relay.cast(relay.cast(relay.clip(X, 0, 255), "uint8"), "int32"),
                                relay.cast(relay.clip(X, 0, 255), "int32")),
    "a cast that wraps": (relay.cast(relay.cast(relay.clip(X, 0, 255), "int8"), "int32"),) * 2,
    "a cast that cuts off": (relay.cast(relay.cast(relay.clip(X, 0, 255), "uint8"), "float32"),) * 2,
    "reverse_reshape": (relay.reverse_reshape(X, (6, 0, -1)), relay.reshape(X, (6, 4, 5))),
    "reverse_reshape of a reshape": (relay.reverse_reshape(relay.reshape(X, (6, 20)), (3, -1, 0)), relay.reshape(X, (3, 2, 20))),
    "reverse_reshape of an open size": (relay.reverse_reshape(OPEN, (-1, 1, 0)),) * 2,
    "reshapes": (relay.reshape(relay.reshape(X, (6, 20)), (2, 60)), relay.reshape(X, (2, 60))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_simpler_calls(name: str) -> None:
    expr, wanted = CASES[name]
    variables = relay.analysis.free_vars(relay.Tuple([expr, wanted]))
    before, after = (relay.IRModule.from_expr(relay.Function(variables, e)) for e in (expr, wanted))
    t = relay.transform
    found = t.ToGraphNormalForm()(t.DeadCodeElimination()(t.SimplifyExpr()(before)))
    assert relay.structural_equal(found["main"].body, after["main"].body, map_free_vars=True)
    assert relay.structural_equal(relay.parse(found.astext()), found)
    rng = np.random.default_rng(7)
    args = [(rng.random([n if isinstance(n, int) else 2 for n in map(_size, v.annotation.shape)]) * 9 + 1) for v in variables]
    args = [arg.astype(v.annotation.dtype) for arg, v in zip(args, variables, strict=True)]
    one, other = (relay.create_executor("debug", m).evaluate()(*args).numpy() for m in (before, found))
    np.testing.assert_allclose(other, one, rtol=1e-6)


def _size(d) -> int | None:
    return int(str(d)) if str(d).isdigit() else None


def test_the_compiler_keeps_every_bit() -> None:
    x = relay.var("x", (2,))
    run = relay.create_executor("vm", relay.IRModule.from_expr(relay.Function([x], x + of(0.0)))).evaluate()
    assert not np.signbit(run(np.array([-0.0, -0.0], "float32")).numpy()).any()
