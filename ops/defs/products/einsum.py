"""``einsum`` as a composite operator: a chain of pairwise matrix products, or elementwise products and sums."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.argument_checks import dimensions
from ....shape_funcs.symbolic.dim import MAX_RANK
from ....shape_funcs.symbolic.registry import ShapeError
from ...composition.composite import Term, call, cast, composite, equal_sizes, number, widened
from ...core.dtype_rules import NUMBERS, like_fields, require
from ...core.op import get
from ..arithmetic.broadcast import MULTIPLY
from ..axes.reduce import SUM, ReduceAttrs
from ..movement.matrix import TriluAttrs
from ..movement.transform import ExpandDimsAttrs, ReshapeAttrs, ReshapeLikeAttrs, TransposeAttrs
from .nn import BatchMatmulAttrs

#: Labels of axes: letters; ``...0`` is the last axis of an ellipsis, ``...1`` the axis before it.
Labels = tuple[str, ...]
_ELLIPSIS = "..."
_KEEP, _MERGE = 0, -3  # special values of ``reshape``


@frozen
class EinsumAttrs:
    """``equation``: such as ``ij,jk->ik``.  Without ``->`` the result has the axes of the ellipsis, then the letters that occur
    once, in alphabetical order.  The axes of an ellipsis broadcast."""

    equation: str


@frozen
class _LabelledTerm:
    """A term and the labels of its axes."""

    term: Term
    labels: Labels

    def transposed(self, labels: Sequence[str]) -> _LabelledTerm:
        """The term transposed to the order ``labels``."""
        if tuple(labels) == self.labels:
            return self
        axes = tuple(self.labels.index(label) for label in labels)
        return _LabelledTerm(call(get("transpose"), self.term, attrs=TransposeAttrs(axes)), tuple(labels))

    def summed(self, kept: Iterable[str]) -> _LabelledTerm:
        """The sum over the axes that are not in ``kept``."""
        gone = tuple(axis for axis, label in enumerate(self.labels) if label not in set(kept))
        if not gone:
            return self
        labels = tuple(label for axis, label in enumerate(self.labels) if axis not in gone)
        return _LabelledTerm(call(SUM, self.term, attrs=ReduceAttrs(gone)), labels)

    def among(self, labels: Labels) -> Term:
        """The term with all axes ``labels``, in their order; missing axes are inserted with size 1."""
        term = self.transposed([label for label in labels if label in self.labels]).term
        for axis, label in enumerate(labels):
            if label not in self.labels:
                term = call(get("expand_dims"), term, attrs=ExpandDimsAttrs(axis))
        return term


# ---- the equation ------------------------------------------------------------------------------------------------------


def _labels(text: str, rank: int | None, what: str) -> Labels:
    """The labels in one part of an equation; ``rank`` None: the result, whose ellipsis remains a single label."""
    if re.fullmatch(r"[A-Za-z]*(\.\.\.)?[A-Za-z]*", text) is None:
        raise ShapeError(f"equation: {what} is {text!r}; it takes letters and one ellipsis")
    before, dots, after = text.partition(_ELLIPSIS)
    if rank is None:
        return (*before, *([dots] if dots else []), *after)
    hidden = rank - len(before) - len(after)
    if hidden < 0 or (hidden and not dots):
        raise ShapeError(f"{what} has {dimensions(rank)}, but {text!r} is for {len(before + after)}", input=0)
    return (*before, *(f"{_ELLIPSIS}{k}" for k in reversed(range(hidden))), *after)


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[tuple[Labels, ...], Labels]:
    """The labels of the axes of each tensor, and of the result.  Raises ShapeError."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(ranks):
        tensors = f"{len(parts)} tensor{'' if len(parts) == 1 else 's'}"
        raise ShapeError(f"equation {equation!r} is for {tensors}, {len(ranks)} are given", input=0)
    inputs = tuple(_labels(text, rank, f"tensor {k}") for k, (text, rank) in enumerate(zip(parts, ranks, strict=True)))
    named = [label for labels in inputs for label in labels]
    hidden = sorted({label for label in named if len(label) > 1}, key=lambda label: -int(label[len(_ELLIPSIS) :]))
    if not arrow:
        return inputs, (*hidden, *sorted(label for label in named if len(label) == 1 and named.count(label) == 1))
    result: list[str] = []
    for label in _labels(right, None, "the result"):
        if label == _ELLIPSIS:
            result += hidden
        elif label not in named:
            raise ShapeError(f"equation {equation!r} has {label} in the result, but in no tensor")
        elif label in result:
            raise ShapeError(f"equation {equation!r} has {label} twice in the result")
        else:
            result.append(label)
    if hidden and hidden[0] not in result:
        raise ShapeError(f"equation {equation!r} has no ellipsis in the result, so it would lose axes")
    return inputs, tuple(result)


# ---- expansion ---------------------------------------------------------------------------------------------------------


def _diagonal(x: _LabelledTerm) -> _LabelledTerm:
    """The diagonals along repeated labels: off-diagonal elements are replaced by 0, then one of the axes is summed."""
    for label in dict.fromkeys(x.labels):
        while x.labels.count(label) > 1:
            second = len(x.labels) - 1 - x.labels[::-1].index(label)
            others = [axis for axis in range(len(x.labels)) if axis not in (x.labels.index(label), second)]
            term = _equal(x.term, second, x.term, x.labels.index(label), label)
            order = (*others, x.labels.index(label), second)
            term = call(get("transpose"), term, attrs=TransposeAttrs(order))
            for upper in (True, False):
                term = call(get("trilu"), term, number(0, "int64"), attrs=TriluAttrs(upper))
            labels = tuple(x.labels[axis] for axis in order[:-1])
            x = _LabelledTerm(call(SUM, term, attrs=ReduceAttrs((len(labels),))), labels)
    return x


def _equal(data: Term, axis: int, other: Term, other_axis: int, label: str) -> Term:
    return equal_sizes(data, axis, other, other_axis, f"einsum: the sizes of {label} differ: {{}} and {{}}", 0)


def _check_equal_sizes(tensors: list[_LabelledTerm]) -> list[_LabelledTerm]:
    """The tensors with checks that equal letters have equal sizes."""
    first: dict[str, tuple[Term, int]] = {}
    out = []
    for x in tensors:
        term = x.term
        for axis, label in enumerate(x.labels):
            if label in first:
                term = _equal(term, axis, *first[label], label)
        first |= {label: (term, k) for k, label in enumerate(x.labels) if len(label) == 1 and label not in first}
        out.append(replace(x, term=term))
    return out


def _product(a: _LabelledTerm, b: _LabelledTerm, kept: set[str]) -> _LabelledTerm:
    """The product of two tensors, summed over their common axes that are not in ``kept``."""
    shared = [label for label in a.labels if label in b.labels]
    inner = [label for label in shared if label not in kept]
    alike = all(a.term.shape[a.labels.index(s)] is b.term.shape[b.labels.index(s)] for s in shared)
    labels = (*(x for x in a.labels if x in kept), *(x for x in b.labels if x not in a.labels), *inner)
    rank = len(labels) - len(inner) * alike
    if rank > MAX_RANK:
        raise ShapeError(f"a product of two tensors would have {dimensions(rank)}; at most {MAX_RANK} are possible", input=0)
    if inner and alike:
        return _product_of_matrices(a, b, [label for label in shared if label in kept], inner)
    left, right = widened(a.among(labels), b.among(labels))
    return _LabelledTerm(call(MULTIPLY, left, right), labels).summed(kept)


def _product_of_matrices(a: _LabelledTerm, b: _LabelledTerm, batch: list[str], inner: list[str]) -> _LabelledTerm:
    """The product as a batched matrix product: axes are merged before it and split after it."""
    left, right = ([label for label in x.labels if label not in (*batch, *inner)] for x in (a, b))
    a, transpose_a = _matrices(a, batch, left, inner)
    b, no_transpose_b = _matrices(b, batch, right, inner)
    attrs = BatchMatmulAttrs(transpose_a=transpose_a, transpose_b=not no_transpose_b)
    groups = [(batch, left, inner), (batch, right, inner)]
    operands = [
        _merge_axes(x.term, (g[0], g[2], g[1]) if swaps else g)
        for x, g, swaps in zip((a, b), groups, (transpose_a, no_transpose_b), strict=True)
    ]
    term = call(get("nn.batch_matmul"), *operands, attrs=attrs)
    parts = [(a, batch), (a, left), (b, right)]
    # the vanishing axes first, so that the rank stays within MAX_RANK; then from last to first, so that earlier positions stay
    for k in sorted((2, 1, 0), key=lambda k: bool(parts[k][1])):
        like, labels = parts[k]
        if len(labels) != 1:
            axis = sum(bool(own) for _, own in parts[:k]) if labels else k
            start = like.labels.index(labels[0]) if labels else 0
            part = ReshapeLikeAttrs(axis, axis + 1, start, start + len(labels))
            term = call(get("reshape_like"), term, like.term, attrs=part)
    return _LabelledTerm(term, (*batch, *left, *right))


def _matrices(x: _LabelledTerm, batch: list[str], free: list[str], inner: list[str]) -> tuple[_LabelledTerm, bool]:
    """The term with axes in the order batch, free, inner and False; or unchanged and True if its order is batch, inner, free."""
    if x.labels == (*batch, *inner, *free) and free:
        return x, True
    return x.transposed([*batch, *free, *inner]), False


def _merge_axes(term: Term, groups: Sequence[Sequence[str]]) -> Term:
    """The term with each group of axes merged into one axis."""
    for axis, group in enumerate(groups):
        if not group:
            term = call(get("expand_dims"), term, attrs=ExpandDimsAttrs(axis))
        for _ in group[1:]:
            newshape = (_KEEP,) * axis + (_MERGE,) + (_KEEP,) * (term.rank - axis - 2)
            term = call(get("reshape"), term, attrs=ReshapeAttrs(newshape))
    return term


def _einsum(inputs: tuple[Any, ...], attrs: EinsumAttrs) -> Term:
    (given,) = inputs
    names, result = parse_equation(attrs.equation, [t.rank for t in given])
    dtype, lone = given[0].dtype, [x for labels in names for x in labels if sum(x in n for n in names) == 1]
    once = len(given) == 2 and not set(lone) - set(result) and all(len(set(n)) == len(n) for n in names)
    # a single matrix product rounds only once anyway
    terms = given if once else widened(*given)
    tensors = _check_equal_sizes([_diagonal(_LabelledTerm(t, n)) for t, n in zip(terms, names, strict=True)])
    out = tensors[0]
    for number_, x in enumerate(tensors[1:], 1):
        kept = set(result).union(*(y.labels for y in tensors[number_ + 1 :]))
        out = _product(out.summed({*kept, *x.labels}), x.summed({*kept, *out.labels}), kept)
    return cast(out.summed(result).transposed(result).term, dtype)


def _einsum_rule(inputs: tuple[Any, ...], attrs: EinsumAttrs) -> str:
    dtype = like_fields("einsum")(inputs, attrs)
    assert isinstance(dtype, str)
    require("einsum", dtype, NUMBERS, 0, "data")
    return dtype


composite(
    name="einsum",
    doc='Sums of products, axes named by letters: `einsum(([[1, 2], [3, 4]], [5, 6]), equation="ij,j->i") = [17, 39]`; equal '
    "letters are equal sizes.",
    inputs=("data*",),
    attrs=EinsumAttrs,
    dtype=_einsum_rule,
    expand=_einsum,
)
