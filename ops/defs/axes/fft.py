"""Discrete Fourier transforms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....declarations.frozen_dataclass import frozen
from ....shape_funcs.symbolic.dim import Dim, IntLike, const, dim
from ...core.dtype_rules import FLOATS, require, require_same
from ...core.implementation import Kernel, OpCall, Scratch
from ...core.op import Op, OpPattern
from ...core.parameters import Parameter, Parameters
from ...kernels.fft import cpu as bodies
from ...kernels.fft import cuda as cuda


@frozen
class DftAttrs:
    """``inverse``: whether to compute the inverse transform, divided by the size."""

    inverse: bool = False


@frozen
class StftAttrs:
    """``n_fft``: elements of a frame; ``hop_length``: elements between the begins of consecutive frames; ``win_length``: elements
    of the window, centred in a frame and padded with zeros; ``normalized``: whether to divide by the square root of ``n_fft``;
    ``onesided``: whether to return only the first half of the frequencies; the others are their conjugates."""

    n_fft: int
    hop_length: int
    win_length: int
    normalized: bool = False
    onesided: bool = True


def _parts_rule(dtypes: tuple[Any, ...], attrs: Any) -> tuple[str, ...]:
    dtype = require_same("dft", dtypes, (0, 1), ("re_data", "im_data"))
    require("dft", dtype, FLOATS, 0, "re_data")
    return dtype, dtype


def _frames_rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
    dtype = require_same("stft", dtypes, (0, 1), ("data", "window"))
    require("stft", dtype, FLOATS, 0, "data")
    return dtype


def _frames(attrs: StftAttrs) -> dict[str, Any]:
    return {
        "n": attrs.n_fft,
        "hop": attrs.hop_length,
        "before": (attrs.n_fft - attrs.win_length) // 2,
        "factor": attrs.n_fft**-0.5 if attrs.normalized else 1.0,
    }


def _plan(n: IntLike) -> Dim:
    """The number of elements of a plan for ``n`` elements; an upper bound if ``n`` is unknown."""
    known = const(n)
    return n * bodies.MOST_FOR_EACH if known is None else dim(bodies.plan_length(known, bodies.length_of(known)))  # type: ignore[return-value]


def _plan_of_rows(call: OpCall) -> Dim:
    return _plan(call.inputs[0].shape[-1])


def _plan_of_frames(call: OpCall) -> Dim:
    return _plan(call.attrs.n_fft)


def _stft_call(given: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """By default a window of ones as long as a frame, and frames a quarter of their length apart."""
    n, hop, length, window = (given.get(name) for name in ("n_fft", "hop_length", "win_length", "window"))
    if isinstance(n, int):
        hop = n // 4 if hop is None else hop
        length = n if length is None else length
    if window is None and isinstance(length, int):
        window = [1.0] * length
    return "stft", {**given, "hop_length": hop, "win_length": length, "window": window}


Op(
    name="dft",
    doc="The discrete Fourier transform along the last axis, real and imaginary part: "
    "`dft([1.0, 2.0], [0.0, 0.0]) = ([3, -1], [0, 0])`.",
    inputs=("re_data", "im_data"),
    attrs=DftAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_parts_rule,
    kernels=(Kernel("dft", bodies.dft, views=("dims",), scratch=(Scratch("float64", length=_plan_of_rows),), cuda=cuda.dft),),
)

Op(
    name="stft",
    doc="The discrete Fourier transforms of sliding windows over real data, as pairs of real and imaginary part: "
    "`stft([1.0, 2.0, 4.0], [1.0, 1.0], n_fft=2, hop_length=1, win_length=2) = [[[3, 0], [6, 0]], [[-1, 0], [-2, 0]]]`.",
    inputs=("data", "window"),
    python=Parameters.of(
        "data",
        "n_fft",
        Parameter("hop_length", None),
        Parameter("win_length", None),
        Parameter("window", None, dtype="data"),
        "normalized",
        "onesided",
        call=_stft_call,
    ),
    attrs=StftAttrs,
    pattern=OpPattern.OPAQUE,
    dtype=_frames_rule,
    kernels=(
        Kernel(
            "stft",
            bodies.stft,
            attrs=_frames,
            views=("dims",),
            scratch=(Scratch("float64", length=_plan_of_frames),),
            cuda=cuda.stft(_frames),
        ),
    ),
)
