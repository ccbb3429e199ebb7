"""Random numbers from keys: an operator takes a key and returns a new one beside the numbers.

Equal keys give equal numbers, so a program that is run twice gives the same results.
"""

from __future__ import annotations

import math
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import const
from ....shape_funcs.symbolic.int_operations import INT64_MAX
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import CallTerm, Expansion, Term, call, cast, composite, number, results
from ...core.dtype_rules import FLOATS, one_of, require
from ...core.implementation import Kernel
from ...core.op import DTypeRule, NoAttrs, Op, OpPattern, TypeRelError, get
from ...core.parameters import Parameter, Parameters
from ...kernels.threefry import cpu as bodies
from ...kernels.threefry import cuda as cuda
from ..arithmetic.broadcast import MAXIMUM, RIGHT_SHIFT
from ..arithmetic.elementwise import LOG, SQRT
from ..movement.transform import SliceAttrs, SplitAttrs, SqueezeAttrs

_WORD = "uint64"
#: The bits of a number between 0 and 1, by its dtype: those of the significand that are stored.
_BITS = {"float32": 23, "float64": 52}


@frozen
class ThreefryAttrs:
    """``shape``: shape of the words."""

    shape: tuple[int, ...]


@frozen
class ThreefryRowsAttrs:
    """``count``: the number of words for each row."""

    count: int


@frozen
class DrawAttrs:
    """``shape`` and ``dtype`` of the numbers, float32 or float64."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@frozen
class MultinomialAttrs:
    """``num_samples``: the number of draws for each row."""

    num_samples: int


def _keyed(op: str) -> DTypeRule:
    """Rule: a key, to a new key and words."""

    def rule(dtypes: tuple[Any, ...], attrs: Any) -> tuple[str, ...]:
        require(op, dtypes[0], (_WORD,), 0, "key")
        return _WORD, _WORD

    return rule


_NO_ATTRS: dict[str, Any] = {"attrs": lambda attrs: {}}
Op(
    name="random.threefry_generate",
    doc="The next key, and random words in a shape, by Threefry: `random.uniform` makes numbers of them.",
    inputs=("key",),
    attrs=ThreefryAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_keyed("random.threefry_generate"),
    kernels=(Kernel("threefry", bodies.threefry_generate, views=("flat",), cuda=cuda.threefry_generate, **_NO_ATTRS),),
)
Op(
    name="random.threefry_rows",
    doc="The next key, and `count` random words for each row of the data.",
    inputs=("key", "data"),
    attrs=ThreefryRowsAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_keyed("random.threefry_rows"),
    kernels=(Kernel("threefry", bodies.threefry_generate, views=("", "skip", "flat"), cuda=cuda.threefry_generate, **_NO_ATTRS),),
)
Op(
    name="random.threefry_split",
    doc="Two new keys; the numbers of each are independent of those of the other.",
    inputs=("key",),
    attrs=NoAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_keyed("random.threefry_split"),
    kernels=(Kernel("threefry", bodies.threefry_split, cuda=cuda.threefry_split, **_NO_ATTRS),),
)


# ---- distributions ---------------------------------------------------------------------------------------------------


def _from_words(words: Term, dtype: str) -> Term:
    """Random words as multiples of a power of 2, at least 0 and less than 1."""
    bits = _BITS[dtype]
    whole = call(RIGHT_SHIFT, words, number(64 - bits, _WORD))
    return cast(whole, dtype) * number(2.0**-bits, dtype)


def _words(key: Term, shape: tuple[int, ...]) -> tuple[Term, Term]:
    """The next key, and words."""
    drawn: CallTerm = call(get("random.threefry_generate"), key, attrs=ThreefryAttrs(shape))
    new_key, words = results(drawn)
    return new_key, words


def _uniform(inputs: tuple[Term, Term, Term], attrs: DrawAttrs) -> Expansion:
    key, low, high = inputs
    new_key, words = _words(key, attrs.shape)
    return new_key, _from_words(words, attrs.dtype) * (high - low) + low


def _normal(inputs: tuple[Term, Term, Term], attrs: DrawAttrs) -> Expansion:
    """By Box and Muller 1958: the radius and the angle of a point in the plane, each from a uniform number."""
    key, mean, scale = inputs
    new_key, words = _words(key, (2, *attrs.shape))
    halves: CallTerm = call(get("split"), words, attrs=SplitAttrs(2))
    radius, angle = (_from_words(call(get("squeeze"), half, attrs=SqueezeAttrs(0)), attrs.dtype) for half in results(halves))
    radius = call(SQRT, call(LOG, -radius + 1.0) * -2.0)
    return new_key, radius * call(get("cos"), angle * (2 * math.pi)) * scale + mean


def _multinomial(inputs: tuple[Term, Term], attrs: MultinomialAttrs) -> Expansion:
    """The index of the first sum of weights above a uniform number times the sum of all weights."""
    key, probs = inputs
    if probs.rank and const(probs.shape[-1]) == 0:
        raise ShapeError("there is nothing to draw from: the last axis of probs is empty", input=1)
    if attrs.num_samples < 0:
        raise ShapeError(f"num_samples is negative: {attrs.num_samples}")
    drawn: CallTerm = call(get("random.threefry_rows"), key, probs, attrs=ThreefryRowsAttrs(attrs.num_samples))
    new_key, words = results(drawn)
    weights = call(MAXIMUM, cast(probs, "float32"), number(0.0, "float32"))
    sums = call(get("cumsum"), weights, attrs=get("cumsum").attrs(axis=-1))
    total = _part(sums, -1, INT64_MAX)
    positions = get("searchsorted")
    # without the last sum: the last index is that of every number beyond the other sums
    found = call(positions, _part(sums, 0, -1), _from_words(words, "float32") * total, attrs=positions.attrs(right=True))
    return new_key, found


def _part(x: Term, begin: int, end: int) -> Term:
    part: Term = call(get("strided_slice"), x, attrs=SliceAttrs((begin,), (end,), axes=(-1,)))
    return part


def _drawn(op: str, names: tuple[str, ...]) -> DTypeRule:
    """Rule: a key and scalars of the dtype of the numbers, to a new key and numbers."""

    def rule(dtypes: tuple[Any, ...], attrs: DrawAttrs) -> tuple[str, ...]:
        require(op, dtypes[0], (_WORD,), 0, names[0])
        one_of(op, "dtype", attrs.dtype, tuple(_BITS))
        for n in (1, 2):
            if dtypes[n] != attrs.dtype:
                text = f"{op}: {names[n]} is {dtypes[n]}, dtype says {attrs.dtype}"
                raise TypeRelError(text, input=n, help="convert it with `cast`")
        return _WORD, attrs.dtype

    return rule


def _multinomial_rule(dtypes: tuple[Any, ...], attrs: MultinomialAttrs) -> tuple[str, ...]:
    require("random.multinomial", dtypes[0], (_WORD,), 0, "key")
    require("random.multinomial", dtypes[1], FLOATS, 1, "probs")
    return _WORD, "int32"


for _name, _text, _expand, _inputs, _defaults in (
    ("uniform", "evenly distributed from `low` to below `high`", _uniform, ("key", "low", "high"), (0.0, 1.0)),
    (
        "normal",
        "normally distributed around `mean`, with the standard deviation `scale`",
        _normal,
        ("key", "mean", "scale"),
        (0.0, 1.0),
    ),
):
    composite(
        name=f"random.{_name}",
        doc=f"The next key, and random numbers {_text}.",
        inputs=_inputs,
        attrs=DrawAttrs,
        dtype=_drawn(f"random.{_name}", _inputs),
        expand=_expand,
        python=Parameters.of(
            "key", "shape", "dtype", *(Parameter(n, v, dtype="dtype") for n, v in zip(_inputs[1:], _defaults, strict=True))
        ),
    )
composite(
    name="random.multinomial",
    doc="The next key, and random indices of the last axis of `probs`, each as probable as its element, of which negative ones "
    "count as 0, is a part of the sum.",
    inputs=("key", "probs"),
    attrs=MultinomialAttrs,
    dtype=_multinomial_rule,
    expand=_multinomial,
)
