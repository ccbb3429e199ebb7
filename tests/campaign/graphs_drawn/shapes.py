"""Nodes that move elements and compute sizes."""

from __future__ import annotations

import numpy as np
from onnx import numpy_helper

from .drawing import Drawing
from .elementwise import Maker

_MOVED = ("float32", "float32", "int64", "float64", "int32", "bool", "float16")


def reshape(d: Drawing) -> None:
    """Another shape, by numbers, by -1 and 0, or by sizes at run time."""
    x = d.pick(_MOVED)
    shape = d.values[x].array.shape
    form = d.r.random()
    if form < 0.25:
        d.node("Flatten", [x], axis=d.r.randrange(-len(shape), len(shape) + 1) if shape else 0)
    elif form < 0.45 and len(shape) > 1:
        at = d.r.randrange(len(shape) - 1)
        d.node("Reshape", [x, d.constant([0] * at + [-1] + list(shape[at + 2 :]))])
    elif form < 0.6:
        d.node("Reshape", [x, d.constant([-1])])
    elif form < 0.8 and shape:
        (sizes,) = d.node("Shape", [x])
        axis = d.r.randrange(len(shape))
        (one,) = d.node("Gather", [sizes, d.constant([axis])])
        (target,) = d.node("Concat", [one, d.constant([-1])], axis=0)
        d.node("Reshape", [x, target])
    elif form < 0.9:
        rank = len(shape)
        axes = sorted(d.r.sample(range(-rank - 1, rank + 1), 1))
        d.node("Unsqueeze", [x, d.constant(axes)])
    else:
        ones = [k for k, n in enumerate(shape) if n == 1]
        d.node("Squeeze", [x, *([d.constant(ones[:1])] if ones and d.r.random() < 0.7 else [])])


def transpose(d: Drawing) -> None:
    """A permutation, the reverse one by default."""
    x = d.pick(_MOVED)
    perm = list(range(d.values[x].rank))
    d.r.shuffle(perm)
    d.node("Transpose", [x], **({"perm": perm} if perm and d.r.random() < 0.8 else {}))


def concat(d: Drawing) -> None:
    """Tensors behind each other."""
    x = d.pick(_MOVED, least=1)
    axis = d.axis(x)
    shape = d.values[x].array.shape
    fits = [
        n
        for n, v in d.values.items()
        if n[0] != "c" and v.dtype == d.values[x].dtype and v.rank == len(shape)
        and all(a == b for k, (a, b) in enumerate(zip(v.array.shape, shape, strict=True)) if k != axis % len(shape))
    ]  # fmt: skip
    d.node("Concat", [x, *(d.r.choice(fits) for _ in range(d.r.choice((0, 1, 1, 2))))], axis=axis)


def split(d: Drawing) -> None:
    """Parts of an axis."""
    x = d.pick(_MOVED, least=1)
    axis = d.axis(x)
    size = d.values[x].array.shape[axis]
    if d.opset >= 18 and d.r.random() < 0.4:
        d.node("Split", [x], 2, axis=axis, num_outputs=2)
    else:
        at = d.r.randint(0, size)
        d.node("Split", [x, d.constant([at, size - at])], 2, axis=axis)


def slice_(d: Drawing) -> None:
    """A slice with bounds that may be out of range, and steps of both signs."""
    x = d.pick(_MOVED, least=1)
    rank = d.values[x].rank
    axes = d.r.sample(range(rank), d.r.randint(1, rank))
    starts, ends, steps = [], [], []
    for _ in axes:
        step = d.r.choice((1, 1, 1, 2, -1, -2))
        a, b = d.r.choice((0, 0, 1, 2, -1, -3)), d.r.choice((1, 2, 3, 100, -1, 2**31 - 1))
        starts.append(a if step > 0 else d.r.choice((-1, 100, 3)))
        ends.append(b if step > 0 else d.r.choice((-100, 0, -(2**31), 1)))
        steps.append(step)
    if d.r.random() < 0.25:  # the end is a size of a value
        (sizes,) = d.node("Shape", [d.pick(least=1)])
        (end,) = d.node("Gather", [sizes, d.constant([0])])
        d.node("Slice", [x, d.constant([0]), end, d.constant([axes[0]])])
        return
    listed = [x, d.constant(starts), d.constant(ends), d.constant(axes)]
    d.node("Slice", [*listed, *([d.constant(steps)] if set(steps) != {1} or d.r.random() < 0.3 else [])])


def pad(d: Drawing) -> None:
    """Padding of each mode; negative numbers crop."""
    x = d.pick(("float32", "float64", "int64", "int32"), least=1)
    rank, mode = d.values[x].rank, d.r.choice(("constant", "constant", "reflect", "edge", "wrap" if d.opset >= 19 else "edge"))
    some = (0, 0, 1, 2, -1) if mode == "constant" else (0, 0, 1)
    pads = [d.r.choice(some) for _ in range(2 * rank)]
    value = [d.constant(d.r.choice((0, 3)), d.values[x].dtype)] if mode == "constant" and d.r.random() < 0.6 else []
    d.node("Pad", [x, d.constant(pads), *value], mode=mode)


def expand(d: Drawing) -> None:
    """Broadcasting to a shape, of numbers or of a value."""
    x = d.pick(_MOVED)
    shape = list(d.values[x].array.shape)
    if d.r.random() < 0.5:
        other = d.pick()
        (sizes,) = d.node("Shape", [other])
        d.node("Expand", [x, sizes])
        return
    target = [n if n != 1 else d.r.choice((1, 2, 3, 0)) for n in shape]
    d.node("Expand", [x, d.constant([*([d.r.choice((1, 2))] if d.r.random() < 0.4 else []), *target])])


def tile(d: Drawing) -> None:
    """Repeats of each axis, 0 among them."""
    x = d.pick(_MOVED)
    d.node("Tile", [x, d.constant([d.r.choice((1, 1, 2, 3, 0)) for _ in range(d.values[x].rank)])])


def gather(d: Drawing) -> None:
    """Elements by indices, which may count from the end."""
    x = d.pick(_MOVED, least=1, full=True)
    shape, axis = d.values[x].array.shape, d.axis(x)
    size = shape[axis]
    kind = d.r.choice(("int64", "int64", "int32"))
    form = d.r.random()

    def indices(of: int, *sizes: int) -> np.ndarray:
        return np.random.default_rng(d.r.getrandbits(32)).integers(-of, of, sizes)

    if form < 0.5:
        sizes = d.r.choice(((), (1,), (2,), (0,), (2, 2), (1, 3)))
        d.node("Gather", [x, d.constant(indices(size, *sizes), kind)], axis=axis)
    elif form < 0.65:
        other = [n if k != axis % len(shape) else d.r.choice((0, 1, 2, 3)) for k, n in enumerate(shape)]
        d.node("GatherElements", [x, d.constant(indices(size, *other), kind)], axis=axis)
    elif form < 0.75:
        depth = d.r.randint(1, len(shape))
        rows = d.r.choice((1, 2, 0))
        listed = np.stack([indices(shape[k], rows) for k in range(depth)], -1)
        d.node("GatherND", [x, d.constant(listed)])
    elif form < 0.85:
        modes = ("none", "add", "max", "min") if d.opset >= 18 else ("none", "add") if d.opset >= 16 else ("none",)
        mode = d.r.choice(modes) if d.values[x].dtype != "bool" else "none"
        rng = np.random.default_rng(d.r.getrandbits(32))
        rows = rng.permutation(size)[: d.r.randint(0, size)]
        other = [len(rows) if k == axis % len(shape) else n for k, n in enumerate(shape)]
        at = np.broadcast_to(rows.reshape([-1 if k == axis % len(shape) else 1 for k in range(len(shape))]), other)
        updates = d.constant(d.numbers(d.values[x].dtype, other), d.values[x].dtype)
        d.node("ScatterElements", [x, d.constant(at), updates], axis=axis, **({"reduction": mode} if mode != "none" else {}))
    elif form < 0.93:
        rng = np.random.default_rng(d.r.getrandbits(32))
        rows = rng.permutation(shape[0])[: d.r.randint(0, shape[0])].reshape(-1, 1)
        updates = d.constant(d.numbers(d.values[x].dtype, (len(rows), *shape[1:])), d.values[x].dtype)
        d.node("ScatterND", [x, d.constant(rows), updates])
    else:
        d.node("Compress", [x, d.constant(d.numbers("bool", (d.r.randint(0, size),)), "bool")], axis=axis)


def sizes(d: Drawing) -> None:
    """Sizes as values, and tensors made of sizes."""
    form = d.r.random()
    x = d.pick()
    if form < 0.3:
        d.node("Shape", [x], **({"start": d.r.choice((0, 1, -1)), "end": d.r.choice((1, 2, -1))} if d.r.random() < 0.4 else {}))
    elif form < 0.4:
        d.node("Size", [x])
    elif form < 0.6:
        dtype = d.r.choice(("float32", "int64", "bool"))
        (shape,) = d.node("Shape", [x])
        d.node("ConstantOfShape", [shape], value=numpy_helper.from_array(np.ones(1, dtype)))
    elif form < 0.8:
        (count,) = d.node("Size", [x])
        d.node("Range", [d.constant(0), count, d.constant(d.r.choice((1, 2)))])
    elif form < 0.9:
        d.node(
            "OneHot",
            [d.pick(("int64", "int32"), exact=True), d.constant(d.r.choice((1, 3))), d.constant([0, 1], "float32")],
            axis=d.r.choice((-1, 0)),
        )
    else:
        d.node("EyeLike", [d.pick(("float32", "int64"), rank=2)], k=d.r.choice((0, 1, -1)))


def images(d: Drawing) -> None:
    """Blocks and diagonals."""
    form = d.r.random()
    if form < 0.4 and d.opset >= 14:
        x = d.pick(("float32", "int64", "float64"), least=2)
        d.node("Trilu", [x, *([d.constant(d.r.choice((-1, 0, 1, 3)))] if d.r.random() < 0.6 else [])], upper=d.r.randrange(2))
    elif form < 0.6:
        x = d.input("float32", (d.r.choice("nm"), 4, d.r.choice("nmk"), 2))
        d.node("DepthToSpace", [x], blocksize=2, mode=d.r.choice(("DCR", "CRD")))
    elif form < 0.8:
        x = d.input("float32", (d.r.choice("nm"), d.r.choice((1, 2)), 4, 2))
        d.node("SpaceToDepth", [x], blocksize=2)
    else:
        x = d.pick(("float32", "int64"), least=2, full=True)
        lengths = d.numbers("uint8", (d.values[x].array.shape[1],)) % (d.values[x].array.shape[0] + 1)
        d.node("ReverseSequence", [x, d.constant(np.maximum(lengths, 1))])


MAKERS: dict[Maker, float] = {
    reshape: 2, transpose: 1.3, concat: 1.3, split: 0.8, slice_: 1.6, pad: 1, expand: 1, tile: 0.7, gather: 2, sizes: 1.3,
    images: 0.6,
}  # fmt: skip
