"""Wrong calls of every operator: a precise error or a result; never another exception, and never a crash.

Derived from the recipes' calls (``every_op/wrong.py``).  Errors of types and attributes are checked by the rules alone.  Errors
of values are checked by running programs whose kernels ``test_every_op`` compiles too.
"""

from __future__ import annotations

import gc
import itertools
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.op import Op, OpPattern, TypeRelError, get
from relayvm.ops.core.tensor_types import TensorType
from relayvm.ops.core.type_relation import relate
from relayvm.ops.native.status import INTERNAL, STATUS
from relayvm.shape_funcs.symbolic.dim import dim, sym

from ..devices import DEVICES
from .every_op import all_recipes  # noqa: F401  (declares)
from .every_op.drawing import Draw
from .every_op.program import Compiled, Mode
from .every_op.recipe import Call, call, dtypes_of, flags_of, operators, recipe_of, refused_dtypes, regroup
from .wrong_calls import other_attributes, other_dtypes, other_ranks, other_sizes, other_values

pytestmark = pytest.mark.many

EVERY = pytest.mark.parametrize("op", operators(), ids=lambda op: op.name)
LOCAL = tuple(d for d in DEVICES if d != "cuda") or DEVICES


def plain(op: Op) -> Call:
    """The recipe's first call."""
    return recipe_of(op.name).make(Draw(dtypes_of(op.name)[0], "odd"), op.name)


def related(op: Op, made: Call, known: bool) -> str | None:
    """The error of the rules, for known sizes and values or for named sizes; None for a valid call."""
    flags = flags_of(op, made)
    types = [
        TensorType(tuple(dim(n) if known or flag else sym(f"d{k}_{a}") for a, n in enumerate(x.shape)), x.dtype.name)
        for k, (x, flag) in enumerate(zip(made.flat, flags, strict=True))
    ]
    values = [x if flag and known else None for x, flag in zip(made.flat, flags, strict=True)]
    try:
        relate(op, list(regroup(made, types)), op.attrs(**made.attrs), list(regroup(made, values)))
    except TypeRelError as error:
        return error.message
    return None


def check(op: Op, wrong: Iterable[tuple[str, Call]]) -> dict[str, str | None]:
    """Apply the rules to each call; return, per call, the error for known sizes."""
    found = {}
    for what, made in wrong:
        for known in (True, False):
            try:
                refusal = related(op, made, known)
                assert refusal is None or refusal.startswith(f"{op.name}: "), f"the message does not name the operator: {refusal}"
            except Exception as error:
                error.add_note(f"{op.name}: {what} ({'known' if known else 'named'} sizes)")
                raise
            if known:
                found[what] = refusal
    return found


@pytest.mark.split(2)
@EVERY
def test_types(op: Op) -> None:
    made = plain(op)
    found = check(op, itertools.chain(other_ranks(made), other_sizes(made), other_dtypes(made)))
    if op.pattern is OpPattern.BROADCAST and op.shape_func.name == "broadcast":
        assert any(refusal and "longer" in what for what, refusal in found.items()), "sizes that do not broadcast were taken"


@EVERY
def test_dtypes_that_it_does_not_take(op: Op) -> None:
    """Through the compiler: the error has the place."""
    for dtype in refused_dtypes(op.name):
        made = recipe_of(op.name).make(Draw(dtype, "odd"), op.name)
        params = [relay.var(f"x{k}", x.shape, x.dtype.name) for k, x in enumerate(made.flat)]
        args = [relay.Tuple(list(a)) if isinstance(a, tuple) else a for a in regroup(made, params)]
        function = relay.Function(params, relay.Call(op, args, op.attrs(**made.attrs)))
        with pytest.raises(relay.TypeCheckError, match=f"^error: {re.escape(op.name)}: "):
            relay.compile(function)


@pytest.mark.split(2)
@EVERY
def test_attributes(op: Op) -> None:
    found = check(op, other_attributes(op, plain(op)))
    for what, refusal in found.items():
        if what.startswith("axis=") and str(2**62) in what:
            assert refusal is not None, f"{what} was taken"
        if what.endswith(("='word'", "='no such word'")) and not what.startswith("name="):
            assert refusal is not None, f"{what} was taken"


@pytest.mark.split(2)
@EVERY
@pytest.mark.parametrize("device", LOCAL)
@pytest.mark.extensive(device=["cpu"])
def test_values(op: Op, device: str) -> None:
    made = plain(op)
    compiled: Any = None
    for what, wrong in other_values(op, made):
        compiled = compiled or Compiled(op, [made], Mode("any"), device)
        try:
            for result in compiled.run(wrong):
                assert isinstance(result, np.ndarray)
        except relay.VMError as error:
            assert error.status in STATUS and error.status != INTERNAL, str(error)
        except Exception as error:
            error.add_note(f"{op.name}: {what} on {device}")
            raise
    if compiled is not None:
        gc.collect()  # an exception and its frames, which hold the arguments, are a cycle
        if not isinstance(made.wanted, str):
            compiled.agrees(made)  # and the machine goes on


@pytest.mark.parametrize(
    ("name", "attributes", "message"),
    [
        (
            "expand_dims",
            {"axis": 0, "num_newaxis": 2**62},
            f"expand_dims: num_newaxis is {2**62}; valid: 0 to 6, for a tensor has at most 8 dimensions",
        ),
        (
            "expand_dims",
            {"axis": 0, "num_newaxis": -1},
            "expand_dims: num_newaxis is -1; valid: 0 to 6, for a tensor has at most 8",
        ),
        ("split", {"indices_or_sections": 2**62}, f"split: {2**62} parts are too many; at most 65536 are possible"),
    ],
)
def test_counts_that_no_tensor_has(name: str, attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeRelError) as refused:
        relate(get(name), [TensorType.of((3, 5))], get(name).attrs(**attributes))
    assert refused.value.message.startswith(message)


@pytest.mark.parametrize("device", LOCAL)
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "variance", "all", "any", "argmax", "argmin"])
@pytest.mark.extensive(device=["cpu"], name=["sum", "argmax"])
def test_a_reduction_of_no_axis(name: str, device: str) -> None:
    """Each element by itself: what numpy's reduction over an empty tuple of axes gives."""
    x = np.array([[True, False, True]]) if name in ("all", "any") else np.array([[1.5, -2.0, 0.25]], np.float32)
    by_numpy = {"mean": np.mean, "variance": np.var, "argmax": np.zeros_like, "argmin": np.zeros_like}
    wanted = by_numpy.get(name, lambda x: x)(x, **({"axis": ()} if name in ("mean", "variance") else {}))
    for keepdims in (False, True):
        made = call([x], wanted, axis=(), keepdims=keepdims)
        for mode in (Mode("any"), Mode("any", fuse=False), Mode("static")):
            Compiled(get(name), [made], mode, device).agrees(made)


@pytest.mark.parametrize("device", LOCAL)
def test_batch_axes_counted_from_the_end(device: str) -> None:
    data, at = np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.array([[2, 1]])
    made = call([data, at], data[[0, 1], [2, 1]], batch_dims=-1, fixed=[(1, 0)])
    Compiled(get("gather_nd"), [made], Mode("any"), device).agrees(made)


@pytest.mark.parametrize("device", LOCAL)
def test_bounds_of_a_range_in_vectors_of_one_element(device: str) -> None:
    three = [np.array([v], np.float32) for v in (1, 9, 2)]
    made = call(three, np.arange(1, 9, 2), dtype="float32")
    for mode in (Mode("any"), Mode("static", constants=True)):
        Compiled(get("arange"), [made], mode, device).agrees(made)
