"""The arguments of ``relay.transform.FlexibleShapeDispatch``, checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...shape_funcs.symbolic.int_operations import INT64_MAX
from ...vm.diagnostics.argument_errors import a_count, a_sequence, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..passes.sizes.flexible_shape_dispatch import PASS, ShapeBuckets

#: The most buckets: each is a function, and a branch around the branches of the buckets after it.
MAX_BUCKETS = 64


def shape_buckets(
    buckets: Any, axis: Any, auto_pad: Any, pad_value: Any, input_indices: Any, output_indices: Any, affects_output: Any
) -> ShapeBuckets:
    """The buckets that the arguments describe.  Raises ArgumentError."""
    axes = tuple(a_count(a, f"{PASS}: an axis", least=None) for a in (axis if isinstance(axis, (list, tuple)) else (axis,)))
    if not axes:
        raise wrong(f"{PASS}: axis", "an axis, or a list of axes", axis)
    for name, value in (("auto_pad", auto_pad), ("affects_output", affects_output)):
        if not isinstance(value, bool):
            raise wrong(f"{PASS}: {name}", "True or False", value)
    if output_indices is not None and not affects_output:
        raise ArgumentError(f"{PASS}: output_indices lists results, and affects_output=False says that there are none", here())
    inputs = _indices(input_indices, "input_indices", len(axes))
    outputs = _indices(output_indices, "output_indices", len(axes))
    pad = _pad_value(pad_value) if auto_pad else None
    return ShapeBuckets(_sizes(buckets, len(axes)), axes, inputs or ((0,),) * len(axes), outputs, pad, affects_output)


def _sizes(buckets: Any, count: int) -> tuple[tuple[int, ...], ...]:
    """The buckets, smallest first."""
    help = "FlexibleShapeDispatch([1, 8, 32]); with two axes [(1, 64), (8, 128)]"
    listed = [_bucket(b, count, help) for b in a_sequence(buckets, f"{PASS}: buckets", help)]
    if not listed or len(listed) > MAX_BUCKETS:
        raise ArgumentError(f"{PASS}: {len(listed)} buckets are given; 1 to {MAX_BUCKETS} are possible", here(), help=help)
    for bucket in listed:
        if listed.count(bucket) > 1:
            shown = bucket if count > 1 else bucket[0]
            raise ArgumentError(f"{PASS}: the bucket {shown} is given twice", here())
    return tuple(sorted(listed, key=lambda b: (math.prod(b), b)))


def _bucket(bucket: Any, count: int, help: str) -> tuple[int, ...]:
    sizes = bucket if isinstance(bucket, (list, tuple)) else (bucket,)
    if len(sizes) != count:
        raise wrong(f"{PASS}: a bucket", f"{count} sizes, as there are {count} axes" if count > 1 else "a size", bucket, help)
    counts = tuple(a_count(size, f"{PASS}: a size of a bucket", least=1, help=help) for size in sizes)
    if max(counts) > INT64_MAX:
        raise ArgumentError(f"{PASS}: a size of a bucket is {max(counts)}; at most {INT64_MAX} is possible", here(), help=help)
    return counts


def _indices(given: Any, name: str, count: int) -> tuple[tuple[int, ...], ...] | None:
    """Per axis the listed numbers; one list holds for all axes.  None if nothing is given."""
    if given is None:
        return None
    what, help = f"{PASS}: {name}", f"{name}=[0, 1], or a list for each axis"
    listed = a_sequence(given, what, help)
    each = listed if any(isinstance(i, (list, tuple)) for i in listed) else (listed,) * count
    if len(each) != count or not listed:
        raise wrong(what, f"a list of numbers, or {count} such lists" if count > 1 else "a list of numbers", given, help)
    out = tuple(tuple(a_count(i, f"{what}: a number", help=help) for i in a_sequence(one, what, help)) for one in each)
    if not all(out):
        raise wrong(what, "lists that are not empty", given, help)
    return out


def _pad_value(value: Any) -> float:
    value = value.item() if isinstance(value, np.generic) else value
    if not (value is None or isinstance(value, (int, float))):
        raise wrong(f"{PASS}: the pad_value", "a number", value)
    return 0 if value is None else value
