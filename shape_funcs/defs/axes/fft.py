"""Shapes of discrete Fourier transforms.  No values are read; only the size of a window matters."""

from __future__ import annotations

from typing import Any

from ...symbolic.argument_checks import dimensions, need_rank, same_size
from ...symbolic.dim import Shape, dim
from ...symbolic.dim_operations import le
from ...symbolic.registry import Operand, ShapeError, check, register_shape_func


@register_shape_func("dft")
def dft(inputs: tuple[Operand, Operand], attrs: Any) -> list[Shape]:
    """Real and imaginary part, of the common shape of the inputs."""
    real, imaginary = inputs
    need_rank(real, 1, "the real part", 0, at_least=True)
    if imaginary.rank != real.rank:
        raise ShapeError(f"the real part has {dimensions(real.rank)}, the imaginary part {imaginary.rank}", input=1)
    message = "axis {} of the real part has size {{}}, of the imaginary part {{}}"
    pairs = zip(real.shape, imaginary.shape, strict=True)
    out = tuple(same_size(a, b, message.format(axis), 1, axis) for axis, (a, b) in enumerate(pairs))
    return [out, out]


@register_shape_func("stft")
def stft(inputs: tuple[Operand, Operand], attrs: Any) -> Shape:
    """For data ``[(batch,) size]``: ``[(batch,) frequencies, frames, 2]``."""
    data, window = inputs
    if data.rank not in (1, 2):
        raise ShapeError(f"the data must have 1 or 2 dimensions, not {data.rank}", input=0)
    need_rank(window, 1, "the window", 1)
    for what in ("n_fft", "hop_length", "win_length"):
        if getattr(attrs, what) < 1:
            raise ShapeError(f"{what} must be at least 1, not {getattr(attrs, what)}")
    if attrs.win_length > attrs.n_fft:
        raise ShapeError(f"win_length {attrs.win_length} is more than n_fft {attrs.n_fft}")
    same_size(dim(attrs.win_length), window.shape[0], "win_length says {}, the window has {} elements", 1, 0)
    size = data.shape[-1]
    check(le(attrs.n_fft, size), "a frame has {} elements, the data {}", attrs.n_fft, size, input=0)
    # the "+ 1" is a hop inside the quotient: more sums are then known to be nonnegative
    frames = (size - attrs.n_fft + attrs.hop_length) // attrs.hop_length
    frequencies = attrs.n_fft // 2 + 1 if attrs.onesided else attrs.n_fft
    return (*data.shape[:-1], dim(frequencies), frames, dim(2))
