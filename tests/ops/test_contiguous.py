"""Views of slices and concatenations: detected exactly where numpy's strides are contiguous, and at numpy's offset."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from relayvm.ops.analysis.views import joined, parts
from relayvm.ops.core.group import Group, Node
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor
from relayvm.ops.core.type_relation import build_group
from relayvm.shape_funcs.symbolic.dim import Dim, IntLike, dim, shape, sym
from relayvm.shape_funcs.symbolic.dim_operations import evaluate

sizes = st.lists(st.integers(0, 4), min_size=1, max_size=4)


def group(
    op: str,
    params: Sequence[Sequence[IntLike]],
    args: tuple[Any, ...] = (0,),
    n_results: int = 1,
    other: str = "float32",
    **attrs: Any,
) -> Group:
    """One operator over float32 parameters; the last one has the dtype ``other``."""
    node = Node(op, get(op).attrs(**attrs), args, ())
    tensors = [*(Tensor("float32", shape(p)) for p in params[:-1]), Tensor(other, shape(params[-1]))]
    return build_group(tensors, [], [node], range(len(params), len(params) + n_results))


def named(given_: Sequence[int]) -> tuple[tuple[Dim, ...], dict[str, int]]:
    """The same sizes as unknowns, and what they are."""
    return tuple(sym(f"d{k}") for k in range(len(given_))), {f"d{k}": n for k, n in enumerate(given_)}


def is_run(view: np.ndarray) -> bool:
    """Whether the elements of a view are contiguous."""
    return bool(view.flags.c_contiguous)


def first_of(view: np.ndarray, whole: np.ndarray) -> int:
    """The number of the first element of ``view`` in ``whole``."""
    return (view.__array_interface__["data"][0] - whole.__array_interface__["data"][0]) // whole.itemsize


# ---- parts ---------------------------------------------------------------------------------------------------------


@given(st.data(), sizes)
def test_a_slice_is_a_part_where_numpy_has_a_run(data: st.DataObject, given_: list[int]) -> None:
    begin = [data.draw(st.integers(-n, n)) for n in given_]
    end = [data.draw(st.integers(-n, n + 2)) for n in given_]
    strides = [data.draw(st.sampled_from([1, 1, 1, 2, -1])) for _ in given_]
    whole = np.arange(math.prod(given_), dtype=np.float32).reshape(given_)
    cut = tuple(slice(*k) for k in zip(begin, end, strides, strict=True))
    attrs = {"begin": tuple(begin), "end": tuple(end), "strides": tuple(strides)}
    view = whole[cut]
    if 0 in view.shape:
        return
    found = parts(group("strided_slice", [given_], **attrs))
    # one element along an axis has no stride for numpy
    assert found is not None or not is_run(view) or any(s != 1 for s in strides)
    if found is not None:
        assert is_run(view)
        assert evaluate(found[0].offset, {}) == first_of(view, whole)
    dims, values = named(given_)
    found = parts(group("strided_slice", [dims], **attrs))
    if found is not None:
        assert is_run(view)
        assert evaluate(found[0].offset, values) == first_of(view, whole)


@given(st.data(), sizes, st.integers(1, 4))
def test_the_parts_of_a_split(data: st.DataObject, given_: list[int], n: int) -> None:
    axis = data.draw(st.integers(0, len(given_) - 1))
    given_[axis] *= n
    whole = np.arange(math.prod(given_), dtype=np.float32).reshape(given_)
    views = np.split(whole, n, axis)
    found = parts(group("split", [given_], n_results=n, indices_or_sections=n, axis=axis))
    if 0 in given_:
        return
    assert (found is not None) == all(map(is_run, views))
    for part, view in zip(found or (), views, strict=False):
        assert (part.param, evaluate(part.offset, {})) == (0, first_of(view, whole))


@given(st.data(), sizes)
def test_axes_in_another_order(data: st.DataObject, given_: list[int]) -> None:
    axes = tuple(data.draw(st.permutations(range(len(given_)))))
    whole = np.arange(math.prod(given_), dtype=np.float32).reshape(given_)
    found = parts(group("transpose", [given_], axes=axes))
    if 0 not in given_:
        assert (found is not None) == is_run(whole.transpose(axes))


def test_what_computes_or_repeats_is_no_part() -> None:
    n = sym("d0")
    assert parts(group("exp", [(n,)])) is None
    assert parts(group("broadcast_to", [(1, 4)], shape=(3, 4))) is None
    assert parts(group("reverse", [(n, 4)], axis=0)) is None
    assert parts(group("sum", [(n, 4)], axis=(0,))) is None
    assert parts(group("nn.softmax", [(n, 4)])) is None
    assert parts(group("take", [(n, 4), (2,)], (0, 1), other="int64", axis=0)) is None


# ---- joins ---------------------------------------------------------------------------------------------------------


@given(st.data(), sizes, st.lists(st.integers(0, 4), min_size=2, max_size=5))
def test_a_concatenation_is_a_join_where_its_parts_are_runs(data: st.DataObject, given_: list[int], lengths: list[int]) -> None:
    axis = data.draw(st.integers(0, len(given_) - 1))
    params = [[*given_[:axis], length, *given_[axis + 1 :]] for length in lengths]
    whole = np.empty([*given_[:axis], sum(lengths), *given_[axis + 1 :]], np.float32)
    ends = np.cumsum([0, *lengths])
    views = [whole[(slice(None),) * axis + (slice(a, b),)] for a, b in pairwise(ends)]
    if any(0 in p for p in params):
        return
    found = joined(group("concatenate", params, (tuple(range(len(params))),), axis=axis))
    assert (found is not None) == (math.prod(given_[:axis]) == 1)
    for k, part in enumerate(found or ()):
        assert (part.param, evaluate(part.offset, {})) == (k, first_of(views[k], whole))


@given(st.integers(2, 5), st.integers(0, 2), st.integers(1, 3))
def test_a_stack_is_a_join_along_the_first_axis(n: int, axis: int, rows: int) -> None:
    found = joined(group("stack", [(rows, 4)] * n, (tuple(range(n)),), axis=axis))
    assert (found is not None) == (axis == 0 or (axis == 1 and rows == 1))
    for k, part in enumerate(found or ()):
        assert (part.param, part.offset) == (k, dim(4 * rows * k))


def test_sizes_that_are_not_known() -> None:
    n, m = sym("d0"), sym("d1")
    found = joined(group("concatenate", [(n, 4), (m, 4), (n, 4)], ((0, 1, 2),), axis=0))
    assert found is not None
    assert [p.offset for p in found] == [dim(0), n * 4, (n + m) * 4]
    # the axis before it might be longer than 1
    assert joined(group("concatenate", [(n, m), (n, m)], ((0, 1),), axis=1)) is None
    assert joined(group("concatenate", [(1, n, m), (1, n, m)], ((0, 1),), axis=1)) is not None


def test_one_that_computes_is_no_join() -> None:
    n = sym("d0")
    assert joined(group("where", [(n,), (n,), (n,)], (2, 0, 1), other="bool")) is None
    assert joined(group("nn.pad", [(n, 4), ()], (0, 1), pad_width=((1, 1), (0, 0)))) is None
    assert joined(group("split", [(4, 4)], n_results=2, indices_or_sections=2)) is None
