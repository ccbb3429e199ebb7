"""Recipes of operators that make tensors, move elements or give them another shape."""

from __future__ import annotations

import numpy as np

from .drawing import Draw, ints, wide
from .recipe import Call, call, recipe

# ---- other shapes ------------------------------------------------------------------------------------------------------


@recipe("reshape", "dyn.reshape", by_width=True)
def reshape(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1, 3))
    first = d.pick("copied", "inferred", "said")
    if first == "copied" and 0 not in x.shape[1:]:
        # Relay's 0 copies an axis: numpy does not infer beside an empty one
        wanted = x.reshape(x.shape[0], int(np.prod(x.shape[1:], dtype=int)))
        newshape: tuple[int, ...] = (0, -1)
    elif first == "inferred":
        wanted, newshape = x.reshape(x.size), (-1,)
    else:
        wanted, newshape = x.reshape(x.shape[::-1]), x.shape[::-1]
        attrs = {"allowzero": True}
        return call([x], wanted, newshape=newshape, **attrs) if name == "reshape" else call([x, ints(*newshape)], wanted, **attrs)
    return call([x], wanted, newshape=newshape) if name == "reshape" else call([x, ints(*newshape)], wanted)


@recipe("contrib_reverse_reshape", by_width=True)
def reverse_reshape(d: Draw, name: str) -> Call:
    x = d.array(d.dims(3, least=d.pick(1, 0)))
    newshape, wanted = d.pick(
        ((-3, 0), (x.shape[0] * x.shape[1], x.shape[2])),
        ((1, -2), (1, *x.shape)),
        ((0, -3), (x.shape[0], x.shape[1] * x.shape[2])),
    )
    if 0 not in x.shape and d.pick(True, False):
        newshape, wanted = (-1, 0), (x.shape[0] * x.shape[1], x.shape[2])  # Relay's example
    return call([x], x.reshape(wanted), newshape=newshape)


@recipe("reshape_like", by_width=True)
def reshape_like(d: Draw, name: str) -> Call:
    x = d.array(d.shape())
    like = d.array(x.shape[::-1])
    return call([x, like], x.reshape(like.shape))


@recipe("squeeze", "dyn.squeeze", by_width=True)
def squeeze(d: Draw, name: str) -> Call:
    shape = d.shape(0, 3)
    axis = d.number(0, len(shape))
    x = d.array((*shape[:axis], 1, *shape[axis:]))
    given = d.pick(axis, axis - x.ndim)
    wanted = x.reshape(shape)
    return call([x], wanted, axis=(given,), fixed=[(0, axis)]) if name == "squeeze" else call([x, ints(given)], wanted)


@recipe("expand_dims", "dyn.expand_dims", by_width=True)
def expand_dims(d: Draw, name: str) -> Call:
    x = d.array(d.shape(0, 3))
    axis, count = d.number(-x.ndim - 1, x.ndim), d.pick(1, 2, 0)
    at = axis % (x.ndim + 1)
    wanted = x.reshape((*x.shape[:at], *(1,) * count, *x.shape[at:]))
    if name == "expand_dims":
        return call([x], wanted, axis=axis, num_newaxis=count)
    return call([x, d.scalar(axis, "int64")], wanted, num_newaxis=count)


@recipe("nn.batch_flatten", by_width=True)
def batch_flatten(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1, 4))
    return call([x], x.reshape(x.shape[0], int(np.prod(x.shape[1:], dtype=int))))


@recipe("shape_of", by_width=True)
def shape_of(d: Draw, name: str) -> Call:
    x = d.array(d.shape())
    dtype = d.pick("int64", "int32")
    return call([x], np.array(x.shape, dtype), dtype=dtype)


@recipe("ndarray_size", by_width=True)
def ndarray_size(d: Draw, name: str) -> Call:
    x = d.array(d.shape())
    dtype = d.pick("int32", "int64")
    return call([x], np.array(x.size, dtype), dtype=dtype)


# ---- moved elements ----------------------------------------------------------------------------------------------------


@recipe("transpose", by_width=True)
def transpose(d: Draw, name: str) -> Call:
    x = d.array(d.shape())
    axes = list(range(x.ndim))[::-1]
    for k in range(x.ndim):
        other = d.number(0, x.ndim - 1)
        axes[k], axes[other] = axes[other], axes[k]
    return call([x], x.transpose(axes), axes=tuple(axes)) if axes else call([x], x)


@recipe("concatenate", by_width=True)
def concatenate(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1))
    axis = d.axis(x.ndim)
    parts = [x]
    for _ in range(d.pick(2, 1, 3) - 1):
        shape = list(x.shape)
        shape[axis] = d.pick(x.shape[axis], 2, 0)
        parts.append(d.array(shape))
    return call([tuple(parts)], np.concatenate(parts, axis), axis=axis)


@recipe("stack", by_width=True)
def stack(d: Draw, name: str) -> Call:
    shape = d.shape(0, 3)
    axis = d.number(-len(shape) - 1, len(shape))
    parts = [d.array(shape) for _ in range(d.pick(2, 1, 3))]
    return call([tuple(parts)], np.stack(parts, axis), axis=axis)


@recipe("split", by_width=True)
def split(d: Draw, name: str) -> Call:
    shape = list(d.shape(1))
    axis = d.axis(len(shape))
    how = d.pick((2, 3), 2, (), (1, 1, 4), 1)
    if isinstance(how, int):
        shape[axis] *= how
    x = d.array(shape)
    return call([x], list(np.split(x, how, axis)), indices_or_sections=how, axis=axis)


def limits(d: Draw, size: int) -> tuple[int, int, int]:
    """Beginning, end and stride of a slice.  They do not depend on the size where the choices end."""
    stride = d.pick(1, 2, -1, 3, -2)
    ends = [0, 1, 2, 100, -1, -2, -100]
    begin, end = (d.pick(100, *ends), d.pick(-100, *ends)) if stride < 0 else (d.pick(1, *ends), d.pick(100, *ends))
    return begin, end, stride


@recipe("strided_slice", "dyn.strided_slice", by_width=True)
def strided_slice(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1, 3))
    count = d.pick(x.ndim, 1)
    rows = [limits(d, n) for n in x.shape[:count]]
    begin, end, strides = (tuple(r[k] for r in rows) for k in range(3))
    wanted = x[tuple(slice(*row) for row in rows)]
    if name == "strided_slice":
        return call([x], wanted, begin=begin, end=end, strides=strides)
    return call([x, ints(*begin), ints(*end), ints(*strides)], wanted)


@recipe("slice_like", by_width=True)
def slice_like(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1, 3))
    like = d.array([d.pick(n, max(n - 1, 0)) for n in x.shape])
    axes = d.pick((), (0,), (-1,))
    cut = range(x.ndim) if not axes else [a % x.ndim for a in axes]
    return call([x, like], x[tuple(slice(like.shape[k] if k in cut else None) for k in range(x.ndim))], axes=axes)


@recipe("tile", "dyn.tile", by_width=True)
def tile(d: Draw, name: str) -> Call:
    x = d.array(d.shape(0, 3))
    reps = tuple(d.pick(2, 1, 0, 3) for _ in range(d.pick(max(x.ndim, 1), 1, 4)))
    wanted = np.tile(x, reps)
    return call([x], wanted, reps=reps) if name == "tile" else call([x, ints(*reps)], wanted)


@recipe("repeat", by_width=True)
def repeat(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1))
    axis, times = d.axis(x.ndim), d.pick(2, 1, 0, 3)
    return call([x], np.repeat(x, times, axis), repeats=times, axis=axis)


@recipe("reverse", by_width=True)
def reverse(d: Draw, name: str) -> Call:
    x = d.array(d.shape(1))
    axis = d.axis(x.ndim)
    return call([x], np.flip(x, axis), axis=axis)


# ---- made from nothing -------------------------------------------------------------------------------------------------


@recipe("zeros", "ones", by_width=True)
def from_shape(d: Draw, name: str) -> Call:
    shape = d.shape()
    return call([], getattr(np, name)(shape), shape=shape, dtype=d.dtype)


@recipe("dyn.zeros", "dyn.ones", by_width=True)
def from_shape_values(d: Draw, name: str) -> Call:
    shape = d.shape()
    return call([np.array(shape, d.pick("int64", "int32"))], getattr(np, name[4:])(shape), dtype=d.dtype)


@recipe("full", "dyn.full", by_width=True)
def full(d: Draw, name: str) -> Call:
    shape, value = d.shape(), d.array((), high=9)
    wanted = np.full(shape, wide(value))
    to = d.pick({}, {"dtype": "float64"}) if d.dtype != "bool" else {}
    if name == "full":
        return call([value], wanted, shape=shape, **to)
    return call([value, np.array(shape, "int64")], wanted, **to)


@recipe("arange")
def arange(d: Draw, name: str) -> Call:
    count = d.dims(1)[0]
    step = d.pick(1, 2, 3) if d.dtype.startswith("u") or d.dtype == "bool" else d.pick(1, 2, -1, -3)
    if d.size == "large":
        count = {"8": 40, "float16": 600, "bfloat16": 80}.get(d.dtype.replace("uint", "").replace("int", ""), count)
    start = d.pick(0, 3, 7)
    stop = start + count * step - d.pick(0, step // 2)
    if d.dtype.startswith("u"):
        stop = max(stop, 0)
    three = [d.scalar(v) for v in (start, stop, step)]
    if d.dtype == "bool":
        return call(three, np.zeros(0), dtype="bool")
    return call(three, np.arange(start, stop, step), dtype=d.dtype)


@recipe("meshgrid", by_width=True)
def meshgrid(d: Draw, name: str) -> Call:
    vectors = [d.array(d.dims(2)[k : k + 1]) for k in range(2)]
    indexing = d.pick("ij", "xy")
    return call([tuple(vectors)], list(np.meshgrid(*vectors, indexing=indexing)), indexing=indexing)
