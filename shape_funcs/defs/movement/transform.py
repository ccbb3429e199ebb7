"""Shapes of data movement: transpose, concatenate, split, stack, tile, repeat."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import as_size, axes_in, axis_in, dimensions, same_size, vector
from ...symbolic.dim import Dim, Shape, dim, product, total
from ...symbolic.dim_operations import eq, max_, min_
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func


@register_shape_func("transpose")
def transpose(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The sizes in the order ``attrs.axes`` (None or empty: reversed)."""
    (data,) = inputs
    if not attrs.axes:
        return data.shape[::-1]
    axes = axes_in(attrs.axes, data.rank, "axes")
    if len(axes) != data.rank:
        raise ShapeError(f"axes {tuple(attrs.axes)} must name each of the {data.rank} axes once")
    return tuple(data.shape[a] for a in axes)


@register_shape_func("concatenate")
def concatenate(inputs: tuple[tuple[Operand, ...]], attrs: Any) -> Shape:
    """The sum of the sizes along ``attrs.axis``; the other sizes must be equal."""
    parts = _parts(inputs[0])
    axis = axis_in(attrs.axis, parts[0].rank)
    out = _common(parts, skip=axis)
    return (*out[:axis], total(p.shape[axis] for p in parts), *out[axis + 1 :])


@register_shape_func("stack")
def stack(inputs: tuple[tuple[Operand, ...]], attrs: Any) -> Shape:
    """The common shape of the tensors with a new axis ``attrs.axis``, whose size is their number."""
    parts = _parts(inputs[0])
    axis = axis_in(attrs.axis, parts[0].rank + 1)
    out = _common(parts)
    return (*out[:axis], dim(len(parts)), *out[axis:])


def _parts(parts: tuple[Operand, ...]) -> tuple[Operand, ...]:
    if not parts:
        raise ShapeError("needs at least one tensor", input=0)
    for k, p in enumerate(parts):
        if p.rank != parts[0].rank:
            raise ShapeError(f"tensor {k} has {dimensions(p.rank)}, tensor 0 has {parts[0].rank}", input=0)
    return parts


def _common(parts: tuple[Operand, ...], skip: int | None = None) -> list[Dim]:
    """The common sizes of all tensors; axis ``skip`` is not compared."""
    out = list(parts[0].shape)
    for k, p in enumerate(parts[1:], 1):
        for axis, d in enumerate(p.shape):
            if axis != skip:
                out[axis] = same_size(out[axis], d, f"axis {axis} is {{}} in tensor 0 and {{}} in tensor {k}", 0, axis)
    return out


@register_shape_func("split")
def split(inputs: tuple[Operand], attrs: Any) -> list[Shape]:
    """A shape per section; ``attrs.indices_or_sections``: the number of equal sections, or the begin of every section but the
    first (numpy's slices)."""
    (data,) = inputs
    axis = axis_in(attrs.axis, data.rank)
    size, sections = data.shape[axis], attrs.indices_or_sections
    if isinstance(sections, int):
        if sections < 1:
            raise ShapeError(f"cannot split into {sections} parts")
        message = f"cannot split axis {axis} of size {{}} into {sections} equal parts"
        check(eq(size % sections, 0), message, size, input=0, axis=axis)
        lengths = [size // sections] * sections
    else:
        if list(sections) != sorted(sections) or any(i < 0 for i in sections):
            raise ShapeError(f"indices_or_sections {tuple(sections)} must be ascending and not negative")
        begins = (0, *sections)
        lengths = [max_(0, min_(size, end) - begin) for begin, end in zip(begins, sections, strict=False)]
        lengths.append(max_(0, size - begins[-1]))
    return [(*data.shape[:axis], length, *data.shape[axis + 1 :]) for length in lengths]


@register_shape_func("tile")
def tile(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The shape times ``attrs.reps``; the shorter of both is extended by leading ones."""
    return _tile(inputs[0].shape, tuple(as_size(dim(r), "a repetition") for r in attrs.reps))


@register_shape_func("dyn.tile", data_dependent=[False, True])
def dyn_tile(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """The shape times the values of ``reps``."""
    return _tile(inputs[0].shape, tuple(as_size(r, "a repetition", 1) for r in vector(inputs[1], "reps", 1)))


def _tile(data: Shape, reps: Shape) -> Shape:
    rank, one = max(len(data), len(reps)), (dim(1),)
    return tuple(d * r for d, r in zip(one * (rank - len(data)) + data, one * (rank - len(reps)) + reps, strict=True))


@register_shape_func("repeat")
def repeat(inputs: tuple[Operand], attrs: Any) -> Shape:
    """The shape with the size of axis ``attrs.axis`` times ``attrs.repeats`` (None: the data is flattened)."""
    (data,) = inputs
    times = as_size(dim(attrs.repeats), "repeats")
    if attrs.axis is None:
        return (product(data.shape) * times,)
    axis = axis_in(attrs.axis, data.rank)
    return (*data.shape[:axis], data.shape[axis] * times, *data.shape[axis + 1 :])
