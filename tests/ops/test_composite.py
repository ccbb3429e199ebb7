"""Composite operators: their expansions against numpy in float64, for every float dtype and sizes 0, 1 and odd ones."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from relayvm.ops.composition.composite import CallTerm, InputTerm, Number, Term, composite, expansion, number
from relayvm.ops.core.dtype_rules import FLOATS, like_inputs
from relayvm.ops.core.op import REGISTRY, Op, OpPattern, TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType, TupleType, numpy_dtype
from relayvm.ops.core.type_relation import relate
from relayvm.ops.defs.machine.machine_ops import ASSERT_SAME_SIZE
from relayvm.shape_funcs.symbolic.dim import shape, sym
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, Operand

from .fused.run_group import call
from .opaque import opaque_kernels
from .refusals import INTEGER

pytestmark = pytest.mark.many

#: The error bound relative to the largest exact result: some units in the last place.
TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 4e-6, "float64": 1e-13}
#: float16 and bfloat16 are rounded once, at the end: half a unit in the last place, and what float32 lost before.
ONCE = {"float16": 2**-11 * 1.01, "bfloat16": 2**-8 * 1.001}


def array(dims: tuple[int, ...], dtype: str, seed: int = 0, positive: bool = False) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal(dims) + 0.5
    return np.asarray(np.abs(x) + 0.1 if positive else x).astype(numpy_dtype(dtype))


def exact(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def value(term: Term, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    """Evaluate a term on arrays, each call by its kernel."""
    match term:
        case InputTerm():
            return arrays[term.input]
        case Number():
            return np.array(term.value, numpy_dtype(term.dtype))
    assert isinstance(term, CallTerm)
    args = [value(a, arrays) for a in term.args]
    if term.op is ASSERT_SAME_SIZE:
        raise AssertionError("of known sizes nothing is left to check")
    if term.op.pattern is OpPattern.RESHAPE:
        return args[0].reshape([int(str(d)) for d in term.shape])
    with np.errstate(all="ignore"):
        if term.op.pattern is OpPattern.OPAQUE:
            return opaque_kernels.run(term.op.name, args, **vars(term.attrs)).outputs[0]
        return call(term.op.name, args, term.attrs)


def run(name: str, *arrays: np.ndarray, **attrs: Any) -> Any:
    op = get(name)
    made = op.attrs(**attrs)
    operands = tuple(Operand(shape(a.shape), a.dtype.name) for a in arrays)
    found = expansion(op, operands, made)
    declared = op.dtype(tuple(a.dtype.name for a in arrays), made)
    if isinstance(found, tuple):
        assert declared == tuple(t.dtype for t in found)
        return tuple(value(t, arrays) for t in found)
    assert declared == found.dtype
    return value(found, arrays)


def close(ours: Any, wanted: Any, dtype: str, shape_of: tuple[int, ...] | None = None) -> None:
    """``ours`` has the dtype and is near to the exact result."""
    wanted = np.asarray(wanted, np.float64)
    assert ours.dtype == numpy_dtype(dtype) and ours.shape == wanted.shape, (ours.dtype, ours.shape, wanted.shape)
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(exact(ours)), nan)
    ours, wanted = exact(ours)[~nan], wanted[~nan]
    once, start = ONCE.get(dtype, 0), TOLERANCE["float32" if dtype in ONCE else dtype]
    scale = np.abs(wanted).max(initial=0)
    assert (np.abs(ours - wanted) <= once * np.abs(wanted) + start * scale).all(), (ours, wanted)


# ---- norms -------------------------------------------------------------------------------------------------------------


def along(v: np.ndarray, rank: int, axis: int) -> np.ndarray:
    return exact(v).reshape([-1 if a == axis % rank else 1 for a in range(rank)])


def normalised(x: np.ndarray, axes: tuple[int, ...], epsilon: float) -> np.ndarray:
    with np.errstate(all="ignore"):
        mean, var = exact(x).mean(axes, keepdims=True), exact(x).var(axes, keepdims=True)
        return (exact(x) - mean) / np.sqrt(var + epsilon)


EACH_DTYPE = pytest.mark.parametrize("dtype", FLOATS)
EMPTY = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@EACH_DTYPE
@EMPTY
@pytest.mark.parametrize(("dims", "axis"), [((3, 5), -1), ((2, 4, 3), 1), ((1, 1), 1), ((0, 3), -1), ((3, 0), -1), ((7,), 0)])
def test_layer_norm(dims: tuple[int, ...], axis: int, dtype: str) -> None:
    x, gamma, beta = array(dims, dtype), array((dims[axis],), dtype, 1), array((dims[axis],), dtype, 2)
    norm, g, b = normalised(x, (axis,), 1e-3), along(gamma, x.ndim, axis), along(beta, x.ndim, axis)
    given = {"axis": axis, "epsilon": 1e-3}
    close(run("nn.layer_norm", x, gamma, beta, **given), norm * g + b, dtype)
    close(run("nn.layer_norm", x, gamma, beta, **given, center=False), norm * g, dtype)
    close(run("nn.layer_norm", x, gamma, beta, **given, scale=False), norm + b, dtype)


@EACH_DTYPE
@EMPTY
@pytest.mark.parametrize("dims", [(2, 4, 3), (1, 2, 1, 1), (2, 6, 3, 2), (0, 4, 3), (2, 2, 0), (3, 4)])
def test_instance_and_group_norm(dims: tuple[int, ...], dtype: str) -> None:
    x, gamma, beta = array(dims, dtype), array((dims[1],), dtype, 1), array((dims[1],), dtype, 2)
    g, b = along(gamma, x.ndim, 1), along(beta, x.ndim, 1)
    norm = normalised(x, tuple(range(2, x.ndim)), 1e-2)
    close(run("nn.instance_norm", x, gamma, beta, epsilon=1e-2), norm * g + b, dtype)
    parts = x.reshape(dims[0], 2, dims[1] // 2, *dims[2:])
    norm = normalised(parts, tuple(range(2, parts.ndim)), 1e-2).reshape(dims)
    close(run("nn.group_norm", x, gamma, beta, num_groups=2, epsilon=1e-2), norm * g + b, dtype)


def test_channels_last() -> None:
    x, gamma, beta = array((2, 3, 3, 4), "float32"), array((4,), "float32", 1), array((4,), "float32", 2)
    close(run("nn.instance_norm", x, gamma, beta, axis=-1), normalised(x, (1, 2), 1e-5) * exact(gamma) + exact(beta), "float32")
    parts = normalised(x.reshape(2, 3, 3, 2, 2), (1, 2, 4), 1e-5).reshape(x.shape)
    close(run("nn.group_norm", x, gamma, beta, num_groups=2, axis=3), parts * exact(gamma) + exact(beta), "float32")


@EACH_DTYPE
@pytest.mark.parametrize(("dims", "axis"), [((2, 3, 4), 1), ((5, 3), -1), ((0, 2), 1), ((1, 1, 1, 1), 1), ((3, 0), 1)])
def test_batch_norm(dims: tuple[int, ...], axis: int, dtype: str) -> None:
    x, n = array(dims, dtype), dims[axis]
    gamma, beta, mean, var = (array((n,), dtype, k, positive=k == 4) for k in range(1, 5))
    g, b, m, v = (along(p, x.ndim, axis) for p in (gamma, beta, mean, var))
    out, kept_mean, kept_var = run("nn.batch_norm", x, gamma, beta, mean, var, axis=axis, epsilon=1e-3)
    close(out, (exact(x) - m) / np.sqrt(v + 1e-3) * g + b, dtype)
    assert kept_mean is mean and kept_var is var
    close(run("nn.batch_norm", x, gamma, beta, mean, var, axis=axis, center=False, scale=False)[0],
          (exact(x) - m) / np.sqrt(v + 1e-5), dtype)  # fmt: skip


@EACH_DTYPE
@pytest.mark.parametrize("axis", [None, 1, (0, 2), (-1,)])
def test_l2_normalize(axis: Any, dtype: str) -> None:
    for dims in ((2, 3, 4), (1, 1, 1), (0, 2, 3)):
        x = array(dims, dtype)
        squares = (exact(x) ** 2).sum(axis, keepdims=True)
        close(run("nn.l2_normalize", x, eps=1e-2, axis=axis), exact(x) / np.sqrt(np.maximum(squares, 1e-2)), dtype)
    np.testing.assert_array_equal(run("nn.l2_normalize", np.zeros((2, 2), dtype=numpy_dtype(dtype)), eps=1e-2, axis=1), 0)


def windows(x: np.ndarray, size: int, axis: int) -> np.ndarray:
    """The sum of squares over ``size`` neighbours."""
    pad = [(size // 2, (size - 1) // 2) if a == axis % x.ndim else (0, 0) for a in range(x.ndim)]
    squares = np.pad(exact(x) ** 2, pad)
    return np.lib.stride_tricks.sliding_window_view(squares, size, axis).sum(-1)


@EACH_DTYPE
@pytest.mark.parametrize(("dims", "axis"), [((1, 4, 2, 2), 1), ((2, 2, 1, 5), 3), ((3, 4), -1), ((6,), 0), ((1, 2, 3, 1, 2), 2)])
def test_lrn(dims: tuple[int, ...], axis: int, dtype: str) -> None:
    x = array(dims, dtype)
    for size in (1, 2, 3, 4, 9):
        wanted = exact(x) / (1.5 + 0.5 / size * windows(x, size, axis)) ** 0.75
        close(run("nn.lrn", x, size=size, axis=axis, bias=1.5, alpha=0.5), wanted, dtype)


def test_lrn_of_nothing() -> None:
    for dims in ((0, 3, 2, 2), (2, 3, 0), (2, 0, 3)):
        assert run("nn.lrn", array(dims, "float32")).shape == dims


def test_dropout_and_softmax_and_cast_like() -> None:
    x = array((2, 3), "float32")
    data, mask = run("nn.dropout", x, rate=0.3)
    assert data is x
    np.testing.assert_array_equal(mask, np.ones_like(x), strict=True)
    close(run("nn.fast_softmax", x, axis=0), special.softmax(exact(x), 0), "float32")
    np.testing.assert_array_equal(run("cast_like", x, np.zeros((5,), "int16")), x.astype("int16"), strict=True)
    assert run("cast_like", x, x) is x


# ---- reductions --------------------------------------------------------------------------------------------------------


@EACH_DTYPE
@EMPTY
@settings(max_examples=8, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=3), st.data())
def test_reductions(dtype: str, dims: list[int], more: st.DataObject) -> None:
    axes = more.draw(st.one_of(st.none(), st.sets(st.integers(0, len(dims) - 1)).map(lambda s: tuple(sorted(s)))))
    keepdims = more.draw(st.booleans())
    x = array(tuple(dims), dtype, more.draw(st.integers(0, 99)))
    given = {"axis": axes, "keepdims": keepdims}
    for unbiased in (False, True):
        close(run("std", x, **given, unbiased=unbiased), exact(x).std(axes, keepdims=keepdims, ddof=int(unbiased)), dtype)
    mean = array(tuple(1 for _ in dims), dtype, 7)
    close(run("variance_with_mean", x, mean, **given), ((exact(x) - exact(mean)) ** 2).mean(axes, keepdims=keepdims), dtype)
    if x.size:
        close(run("logsumexp", x, **given), special.logsumexp(exact(x), axes, keepdims=keepdims), dtype)


@EMPTY
def test_logsumexp_at_the_ends() -> None:
    inf = np.inf
    x = np.array([[-inf, -inf], [inf, 1], [-inf, 3], [1e30, 1e30], [np.nan, 1]], "float32")
    np.testing.assert_allclose(run("logsumexp", x, axis=(1,)), special.logsumexp(exact(x), 1), rtol=1e-6)


def test_exclude() -> None:
    x = array((2, 3, 4), "float32")
    close(run("std", x, axis=(1,), exclude=True), exact(x).std((0, 2)), "float32")
    close(run("logsumexp", x, axis=(1,), exclude=True), special.logsumexp(exact(x), (0, 2)), "float32")


# ---- losses ------------------------------------------------------------------------------------------------------------


@EACH_DTYPE
@EMPTY
@pytest.mark.parametrize("dims", [(3, 5), (1, 1), (2, 0), (0, 3)])
def test_cross_entropy(dims: tuple[int, int], dtype: str) -> None:
    x, y = array(dims, dtype, positive=True), array(dims, dtype, 1)
    with np.errstate(all="ignore"):
        wanted = -(np.log(exact(x)) * exact(y)).sum() / np.float64(dims[0])
        close(run("nn.cross_entropy", x, y), wanted, dtype)
        close(run("nn.cross_entropy_with_logits", x, y), -(exact(x) * exact(y)).sum() / np.float64(dims[0]), dtype)


@EACH_DTYPE
@EMPTY
@pytest.mark.parametrize(("dims", "targets"), [((4,), ()), ((3, 4), (3,)), ((2, 3, 2), (2, 2)), ((0, 3), (0,)), ((1, 1), (1,))])
def test_nll_loss(dims: tuple[int, ...], targets: tuple[int, ...], dtype: str) -> None:
    classes = dims[min(1, len(dims) - 1)]
    x, w = array(dims, dtype), array((classes,), dtype, 1, positive=True)
    t = np.random.default_rng(3).integers(0, classes, targets).astype("int64")
    rows = np.moveaxis(exact(x), min(1, len(dims) - 1), -1).reshape(-1, classes)
    flat = np.asarray(t).reshape(-1).copy()
    for ignored in (-100, int(flat[0]) if flat.size else 0):
        weight = np.where(flat == ignored, 0, exact(w)[flat])
        losses = -rows[np.arange(len(flat)), flat] * weight
        with np.errstate(all="ignore"):
            wanted = {"none": losses.reshape(targets), "sum": losses.sum(), "mean": losses.sum() / weight.sum()}
        for reduction, result in wanted.items():
            close(run("nn.nll_loss", x, t, w, reduction=reduction, ignore_index=ignored), result, dtype)


def test_a_class_that_is_ignored_may_be_out_of_range() -> None:
    x, w, t = array((2, 3), "float32"), np.ones(3, "float32"), np.array([-100, 1], "int32")
    np.testing.assert_array_equal(run("nn.nll_loss", x, t, w, reduction="none"), [0, -x[1, 1]])
    with pytest.raises(AssertionError):  # the kernel stops with a status
        run("nn.nll_loss", x, np.array([0, 3], "int32"), w, reduction="sum")


# ---- types and mistakes --------------------------------------------------------------------------------------------------

COMPOSITES = [op for op in REGISTRY.values() if op.pattern is OpPattern.COMPOSITE]


def tensor(*dims: Any, dtype: str = "float32") -> TensorType:
    return TensorType.of(dims, dtype)


def test_named_dims_stay_named() -> None:
    n, c, w = sym("n"), sym("c"), sym("w")
    x, v = tensor(n, c, w), tensor(c)
    for name in ("nn.layer_norm", "nn.instance_norm"):
        assert relate(get(name), [x, v, v], get(name).attrs(axis=1))[0] is not None
        assert relate(get(name), [x, v, v], get(name).attrs(axis=1)) == (x, ())
    assert relate(get("nn.group_norm"), [x, v, v], get("nn.group_norm").attrs(3))[0] == x
    assert relate(get("nn.batch_norm"), [x, v, v, v, v], get("nn.batch_norm").attrs()) == (TupleType((x, v, v)), ())
    assert relate(get("nn.l2_normalize"), [x], get("nn.l2_normalize").attrs(1e-3, 1)) == (x, ())
    assert relate(get("nn.lrn"), [x], get("nn.lrn").attrs())[0] == x
    assert relate(get("std"), [x], get("std").attrs(1)) == (tensor(n, w), ())
    assert relate(get("logsumexp"), [x], get("logsumexp").attrs(1, keepdims=True)) == (tensor(n, 1, w), ())
    t = tensor(n, w, dtype="int64")
    assert relate(get("nn.nll_loss"), [x, t, v], get("nn.nll_loss").attrs("none")) == (tensor(n, w), ())
    assert relate(get("cast_like"), [x, tensor(dtype="int8")], get("cast_like").attrs()) == (tensor(n, c, w, dtype="int8"), ())


V3, V4 = tensor(3), tensor(4)
WRONG = [
    ("nn.layer_norm", [tensor(2, 3), V4, V3], {}, 1,
     "nn.layer_norm: gamma has 4 elements, but axis 1 of the data has size 3"),
    ("nn.layer_norm", [tensor(2, 3), V3, V4], {}, 2,
     "nn.layer_norm: beta has 4 elements, but axis 1 of the data has size 3"),
    ("nn.layer_norm", [tensor(2, 3), tensor(1, 3), V3], {}, 1, "nn.layer_norm: gamma must have 1 dimension, not 2"),
    ("nn.layer_norm", [tensor(2, 3), V3, V3], {"axis": 2}, None,
     "nn.layer_norm: axis 2 is out of range for 2 dimensions (valid: -2 to 1)"),
    ("nn.layer_norm", [tensor(), V3, V3], {}, None,
     "nn.layer_norm: axis -1 is out of range for 0 dimensions (a scalar has none)"),
    ("nn.layer_norm", [tensor(2, 3, dtype="int32"), V3, V3], {}, 1,
     "nn.layer_norm: data is int32 but gamma is float32; they must have one dtype"),
    ("nn.instance_norm", [V3, V3, V3], {}, 0, "nn.instance_norm: the data must have at least 2 dimensions, not 1"),
    ("nn.instance_norm", [tensor(3, 2), V3, V3], {"axis": 0}, None,
     "nn.instance_norm: axis 0 is that of the batch; the channels lie along another"),
    ("nn.group_norm", [tensor(2, 3), V3, V3], {"num_groups": 2}, 0,
     "nn.group_norm: axis 1 of the data has size 3, not a multiple of 2 groups"),
    ("nn.group_norm", [tensor(2, 3), V3, V3], {"num_groups": 0}, None, "nn.group_norm: num_groups is 0; it must be at least 1"),
    ("nn.batch_norm", [tensor(2, 3), V4, V3, V3, V3], {}, 1, "nn.batch_norm: gamma has 4 elements, but moving_var has 3"),
    ("nn.batch_norm", [tensor(2, 3), V4, V4, V4, V4], {}, 4,
     "nn.batch_norm: moving_var has 4 elements, but axis 1 of the data has size 3"),
    ("nn.batch_norm", [tensor(2, 3), V3, V3, V3, tensor()], {}, 4, "nn.batch_norm: moving_var must have 1 dimension, not 0"),
    ("nn.l2_normalize", [tensor(2, 3)], {"eps": 0.0, "axis": (0, 0)}, None, "nn.l2_normalize: axis (0, 0) names an axis twice"),
    ("nn.lrn", [tensor(2, 3)], {"size": 0}, None, "nn.lrn: size is 0; it must be at least 1"),
    ("nn.dropout", [tensor(2)], {"rate": 1.0}, None, "nn.dropout: rate is 1.0; it must be at least 0 and less than 1"),
    ("nn.cross_entropy", [tensor(2, 3), tensor(2, 4)], {}, 1,
     "nn.cross_entropy: axis 1 of targets has size 4, that of predictions 3"),
    ("nn.cross_entropy", [tensor(2), tensor(2)], {}, 0, "nn.cross_entropy: predictions must have 2 dimensions, not 1"),
    ("nn.nll_loss", [tensor(2, 3), tensor(3, dtype="int64"), V3], {}, 1,
     "nn.nll_loss: axis 0 of targets has size 3, axis 0 of predictions 2"),
    ("nn.nll_loss", [tensor(2, 3), tensor(2, dtype="int64"), V4], {}, 2,
     "nn.nll_loss: weights has 4 elements, but axis 1 of predictions has size 3"),
    ("nn.nll_loss", [tensor(2, 3), tensor(2), V3], {}, 1, f"nn.nll_loss: targets is float32; {INTEGER}"),
    ("nn.nll_loss", [tensor(2, 3), tensor(2, dtype="int64"), V3], {"reduction": "max"}, None,
     "nn.nll_loss: attribute reduction must be 'mean' or 'sum' or 'none', not 'max'"),
    ("std", [tensor(2, 3)], {"axis": (2,)}, None, "std: axis 2 is out of range for 2 dimensions (valid: -2 to 1)"),
    ("logsumexp", [tensor(2, 3, dtype="int8")], {}, 0, "logsumexp: data is int8; supported: " + ", ".join(FLOATS)),
    ("variance_with_mean", [tensor(2, 3), tensor(2, 2)], {}, None,
     "variance_with_mean: broadcast_to_like: size 2 of axis 1 does not broadcast to 3"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "types", "attrs", "input", "text"), WRONG, ids=[w[4][:60] for w in WRONG])
def test_mistakes(name: str, types: list[TensorType], attrs: dict[str, Any], input: int | None, text: str) -> None:
    with pytest.raises(TypeRelError) as error:
        relate(get(name), types, get(name).attrs(**attrs))
    assert error.value.message == text
    assert input is None or error.value.input == input


def test_every_composite_operator_of_these_families_is_tested() -> None:
    families = ("norm", "loss", "reduce", "casting")
    own = {op.name for op in COMPOSITES if op.expand.__module__.rpartition(".")[2] in families}
    tested = set(re.findall(r'run\(\s*"([\w.]+)"', Path(__file__).read_text()))
    assert own == tested
    assert all(f"{name}(" in get(name).doc for name in own), "an example is missing"


# ---- declarations --------------------------------------------------------------------------------------------------------


def test_a_declaration_needs_an_expansion_and_nothing_else() -> None:
    for more in ({}, {"expand": lambda inputs, attrs: inputs[0], "compute": lambda *_: None}):
        with pytest.raises(ValueError, match=r"operator 'wrong': "):
            Op(name="wrong", doc="x", inputs=("data",), pattern=OpPattern.COMPOSITE, dtype=like_inputs("wrong", ["data"]), **more)
    with pytest.raises(ValueError, match="expand goes with COMPOSITE"):
        Op(name="wrong", doc="x", inputs=("data",), pattern=OpPattern.RESHAPE, dtype=like_inputs("wrong", ["data"]),
           expand=lambda inputs, attrs: inputs[0])  # fmt: skip


def test_one_composite_may_use_another_and_tuples() -> None:
    def expand(inputs: Any, attrs: Any) -> Term:
        (fields,) = inputs
        return get("std").expand((fields[0],), get("std").attrs()) + number(1, fields[0].dtype)  # type: ignore[misc]

    op = composite(name="test.of_tuple", doc="x", inputs=("data*",), dtype=lambda dtypes, attrs: dtypes[0][0], expand=expand)
    try:
        assert op.implementations == ("other operators",)
        assert relate(op, [TupleType((tensor(3), tensor(4)))], op.attrs())[0] == tensor()
        found = expansion(op, ((Operand(shape((3,)), "float32"),),), op.attrs())
        assert isinstance(found, CallTerm) and isinstance(found.args[0], CallTerm)
    finally:
        del REGISTRY["test.of_tuple"], SHAPE_FUNCS["test.of_tuple"]
