"""Make one call of a 1x1 convolution that expands channels and the depthwise convolution of its result, for the CPU.

    let %wide = nn.conv2d(%x, %w);
    let %biased = nn.bias_add(%wide, %b);
    let %clipped = minimum(maximum(%biased, 0f), 6f);
    let %y = nn.conv2d(%clipped, %d, strides=2, padding=1, groups=96);
    ->
    let %y = nn.expanded_conv2d(%x, %w, %b, %d, channels=96, strides=2, padding=1, a_max=6f);

The bounds may be a ``clip``, an ``nn.relu``, a ``maximum``, or a ``minimum`` of a ``maximum``, of scalar constants.  Values
between the calls have no other use.  float32 and float64, windows of 3 x 3, strides 1 or 2 of both axes, no dilation, channels
first.  The weights may be any values of known channels.  Refusals of the convolutions name ``nn.expanded_conv2d``.

Requires: typed A-normal form.
Ensures: the same.  Calls without a use are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from ...ops.core.op import Op, get
from ...ops.core.tensor_types import TensorType
from ...ops.defs.convolution.conv import Conv2dAttrs
from ...ops.defs.convolution.expanded_conv import DTYPES, NAME, ExpandedConv2dAttrs, has_bands
from ...ops.native.jit.convolution.window_taps import WINDOW
from ...shape_funcs.defs.convolution.conv import per_axis, sides
from ...shape_funcs.symbolic.dim import const
from ..ir.chain_rewriter import ChainRewriter, rewrite_chains
from ..ir.expr import Call, Constant, Expr, IRModule, Var, replace
from ..ir.pass_declaration import declare_pass

#: The operators that are replaced.
_REPLACED = ("nn.conv2d", "nn.bias_add", "nn.relu", "clip", "maximum", "minimum")
#: The fewest expanded channels: of fewer, the result of the expansion is small.
LEAST_CHANNELS = 24
#: The most channels of the data: for more, the products take so long that it does not matter where their results are.
MOST_INPUTS = 256
#: The bounds of an expansion, and the value that they limit.
_Bounds = tuple[float, float, Expr]


@declare_pass("FuseExpansions", "infer_type")
def fuse_expansions(mod: IRModule, forced: Collection[str] = ()) -> IRModule:
    """The module with calls of ``nn.expanded_conv2d``.  ``forced``: names of operators that stay as they are."""
    if set(forced) & set(_REPLACED):
        return mod
    return rewrite_chains(mod, _Fuser)


class _Fuser(ChainRewriter):
    """The rewriter of one function."""

    def replaced(self, var: Var, call: Call) -> list[tuple[Var, Expr]] | None:
        fused = self._fused(call)
        return None if fused is None else [(var, fused)]

    def _call(self, atom: Expr, *names: str) -> Call | None:
        return self.sole_call(atom, *map(get, names))

    def _fused(self, last: Call) -> Call | None:
        """The call in the place of ``last``, a depthwise convolution; None for any other call."""
        if not _is_depthwise(last):
            return None
        found = self._bounds(last.args[0])
        biased = None if found is None else self._call(found[2], "nn.bias_add")
        if found is None or biased is None or biased.attrs.axis not in (1, -3):
            return None
        expansion = self._call(biased.args[0], "nn.conv2d")
        if expansion is None or not _is_expansion(expansion) or _sizes(biased.args[1]) != (last.attrs.groups,):
            return None
        own = last.attrs
        attrs = ExpandedConv2dAttrs(own.groups, own.strides, own.padding, own.dilation, a_min=found[0], a_max=found[1])
        return replace(last, op=get(NAME), args=(*expansion.args, biased.args[1], last.args[1]), attrs=attrs)

    def _bounds(self, atom: Expr) -> _Bounds | None:
        """The bounds of ``atom``, and the value that they limit; None for a value without a lower bound."""
        limited = self._call(atom, "clip", "nn.relu", "maximum", "minimum")
        if limited is None or not isinstance(limited.op, Op):
            return None
        bounds: _Bounds | None
        match limited.op.name:
            case "clip":
                bounds = limited.attrs.a_min, limited.attrs.a_max, limited.args[0]
            case "nn.relu":
                bounds = 0.0, math.inf, limited.args[0]
            case "maximum":
                bounds = self._limit(limited, math.inf)
            case _:
                high, _, of = self._limit(limited, math.inf) or (math.nan, 0.0, None)
                inner = None if of is None else self._call(of, "maximum")
                bounds = None if inner is None else self._limit(inner, high)
        return None if bounds is None or math.isnan(bounds[0]) or math.isnan(bounds[1]) else bounds

    def _limit(self, call: Call, high: float) -> _Bounds | None:
        """The scalar constant of a call of two arguments, ``high``, and the other argument."""
        for limit, other in (call.args, call.args[::-1]):
            if isinstance(limit, Constant) and limit.data.ndim == 0:
                return float(limit.data), high, other
        return None


def _type(x: Expr) -> TensorType:
    assert isinstance(x.ty, TensorType), x
    return x.ty


def _sizes(x: Expr) -> tuple[int | None, ...]:
    """The sizes of a tensor; None for each that is unknown."""
    return tuple(map(const, _type(x).shape))


def _is_plain(call: Call) -> bool:
    """Whether a call is a convolution over two axes, channels first, of one dtype that the kernel takes."""
    if call.op is not get("nn.conv2d") or type(call.attrs) is not Conv2dAttrs:
        return False
    attrs, dtypes = call.attrs, {_type(x).dtype for x in (call, *call.args)}
    layouts = attrs.data_layout, attrs.kernel_layout, attrs.out_layout or attrs.data_layout
    return layouts == ("NCHW", "OIHW", "NCHW") and len(dtypes) == 1 and dtypes <= set(DTYPES)


def _is_depthwise(call: Call) -> bool:
    """Whether a call is a depthwise convolution that the kernel takes: a channel for each channel of the data."""
    if not _is_plain(call) or call.attrs.groups < LEAST_CHANNELS or not has_bands(call.attrs.strides, call.attrs.dilation):
        return False
    return _sizes(call.args[1]) == (call.attrs.groups, 1, WINDOW, WINDOW)


def _is_expansion(call: Call) -> bool:
    """Whether a call is a 1x1 convolution with more output channels than input channels."""
    if not _is_plain(call) or call.attrs.groups != 1 or set(per_axis(call.attrs.strides, 2, "strides")) != {1}:
        return False
    channels, inputs, *window = _sizes(call.args[1])
    is_point = window == [1, 1] and not any(map(any, sides(call.attrs.padding, 2))) and _sizes(call.args[0])[1] == inputs
    return is_point and channels is not None and inputs is not None and inputs < channels and inputs <= MOST_INPUTS
