"""Functions at Relay's paths that build several calls, as ``mean_variance``, or none, as ``nn.get_pad_tuple2d``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from ...ops.core.op import REGISTRY, get
from ...shape_funcs.symbolic.int_operations import INT64_MAX
from ...vm.diagnostics.argument_errors import a_text, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from .build import as_expr
from .build import const as constant
from .operator_functions import COMPOSED, OF_OPERATORS, operator_function

Build = TypeVar("Build", bound=Callable[..., Any])


def _at(path: str) -> Callable[[Build], Build]:
    """The decorator that puts a function at ``relay.<path>``."""

    def place(function: Build) -> Build:
        function.__qualname__ = path
        if path in REGISTRY:
            function.__doc__ = get(path).doc
        (OF_OPERATORS if path in REGISTRY else COMPOSED)[path] = function
        return function

    return place


def _call(name: str, *args: Any, **attrs: Any) -> Call:
    return operator_function(get(name))(*args, **attrs)


COMPOSED["nn.const"] = constant
#: Operators whose functions have another name than they.
COMPOSED.update(
    {
        "reverse_reshape": operator_function(get("contrib_reverse_reshape")),
        "nn.contrib_conv2d_nchwc": operator_function(get("nn.contrib_conv2d_NCHWc")),
        "nn.contrib_depthwise_conv2d_nchwc": operator_function(get("nn.contrib_depthwise_conv2d_NCHWc")),
    }
)
# Relay's namespace of the operators on quantised tensors
COMPOSED.update(
    {name.replace("qnn.", "qnn.op.", 1): operator_function(op) for name, op in REGISTRY.items() if name.startswith("qnn.")}
)


# ---- statistics ----------------------------------------------------------------------------------------------------------


@_at("mean_variance")
def mean_variance(data: Any, axis: Any = None, keepdims: Any = False, exclude: Any = False, unbiased: Any = False) -> Tuple:
    """The mean and the variance, as ``relay.mean`` and ``relay.variance``.  Raises ArgumentError."""
    data = as_expr(data)
    mean = _call("mean", data, axis, keepdims, exclude)
    return Tuple((mean, _call("variance", data, axis, keepdims, exclude, unbiased)))


@_at("mean_std")
def mean_std(data: Any, axis: Any = None, keepdims: Any = False, exclude: Any = False) -> Tuple:
    """The mean and the standard deviation, as ``relay.mean`` and ``relay.std``.  Raises ArgumentError."""
    data = as_expr(data)
    return Tuple((_call("mean", data, axis, keepdims, exclude), _call("std", data, axis, keepdims, exclude)))


@_at("segment_sum")
def segment_sum(data: Any, segment_ids: Any, num_segments: Any = None) -> Expr:
    """Row ``s`` of the result is the sum of the rows ``i`` of the data with ``segment_ids[i] == s``.

    ``data``: ``(n, ...)``; ``segment_ids``: integers ``(n,)``; ``num_segments``: the number of rows of the result, a number or an
    expression, by default one more than the largest id.  Raises ArgumentError.
    """
    data, ids = as_expr(data), _call("cast", segment_ids, "int64")
    count = _call("add", _call("max", ids), constant(1, "int64")) if num_segments is None else num_segments
    rows = _call("cast", count, "int64")
    rest = _call("strided_slice", _call("shape_of", data, "int64"), [1], [INT64_MAX])
    zeros = _call("zeros", _call("concatenate", [_call("reshape", rows, [1]), rest], 0), "float32")
    return _call("scatter_nd", _call("cast_like", zeros, data), _call("expand_dims", ids, 0), data, "add")


# ---- neural networks -----------------------------------------------------------------------------------------------------


@_at("nn.dropout_raw")
def dropout_raw(data: Any, rate: Any = 0.5) -> Call:
    """The data and a mask of ones: nothing is dropped from a program that is run."""
    return _call("nn.dropout", data, rate)


@_at("nn.dropout")
def dropout(data: Any, rate: Any = 0.5) -> TupleGetItem:
    return TupleGetItem(dropout_raw(data, rate), 0, span=here())


@_at("strided_set")
def strided_set(data: Any, v: Any, begin: Any, end: Any, strides: Any = None) -> Call:
    if strides is None and isinstance(begin, Expr):
        strides = _call("ones_like", begin)
    return _call("strided_set", data, v, begin, end, strides)


@_at("scatter")
def scatter(data: Any, indices: Any, updates: Any, axis: Any = 0) -> Call:
    """The earlier name of ``relay.scatter_elements`` with ``reduction="update"``.  Raises ArgumentError."""
    return _call("scatter_elements", data, indices, updates, axis, "update")


@_at("scatter_add")
def scatter_add(data: Any, indices: Any, updates: Any, axis: Any = 0) -> Call:
    """The earlier name of ``relay.scatter_elements`` with ``reduction="add"``.  Raises ArgumentError."""
    return _call("scatter_elements", data, indices, updates, axis, "add")


@_at("nn.fifo_buffer")
def fifo_buffer(data: Any, buffer: Any, axis: Any) -> Expr:
    """The last elements of the buffer followed by the data, along ``axis``, as many as the buffer has.  Raises ArgumentError."""
    joined = _call("concatenate", [buffer, data], axis)
    newest_first = _call("slice_like", _call("reverse", joined, axis), buffer, [axis])
    return _call("reverse", newest_first, axis)


def _global_pool(kind: str, rank: int, default_layout: str) -> None:
    def pool(data: Any, layout: str = default_layout, out_layout: str = "") -> Call:
        return _call(f"nn.adaptive_{kind}_pool{rank}d", data, 1, layout, out_layout)

    pool.__name__ = f"global_{kind}_pool{rank}d"
    pool.__doc__ = f"``nn.adaptive_{kind}_pool{rank}d`` with 1 for each size.  Raises ArgumentError."
    _at(f"nn.{pool.__name__}")(pool)


for _kind in ("max", "avg"):
    _global_pool(_kind, 1, "NCW")
    _global_pool(_kind, 3, "NCDHW")


def _pad_tuple(padding: Any, rank: int) -> tuple[Any, ...]:
    """The padding before all axes, then after all axes."""
    if isinstance(padding, int):
        return (padding,) * (2 * rank)
    if isinstance(padding, (tuple, list)) and len(padding) in (1, rank, 2 * rank):
        return tuple(padding) * (2 * rank // len(padding))
    several = f"{rank} or {2 * rank} numbers" if rank > 1 else "1 or 2 numbers"
    raise wrong(f"get_pad_tuple{rank}d: the padding", f"a number, or {several}", padding)


@_at("nn.get_pad_tuple1d")
def get_pad_tuple1d(padding: Any) -> tuple[Any, ...]:
    """``(left, right)`` of a padding that is one number, one for the axis, or two.  Raises ArgumentError."""
    return _pad_tuple(padding, 1)


@_at("nn.get_pad_tuple2d")
def get_pad_tuple2d(padding: Any) -> tuple[Any, ...]:
    """``(top, left, bottom, right)`` of a padding that is one number, one per axis, or four.  Raises ArgumentError."""
    return _pad_tuple(padding, 2)


@_at("nn.get_pad_tuple3d")
def get_pad_tuple3d(padding: Any) -> tuple[Any, ...]:
    """``(front, top, left, back, bottom, right)`` of a padding that is one number, one per axis, or six.

    Raises ArgumentError.
    """
    return _pad_tuple(padding, 3)


# ---- random numbers --------------------------------------------------------------------------------------------------------


@_at("random.threefry_key")
def threefry_key(seed: int) -> Constant:
    """The first key of a seed, a uint64 ``[10]``: equal seeds give equal numbers.

    ``seed``: an integer of at most 256 bits, at least 0.  Raises ArgumentError.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**256:
        raise wrong("threefry_key: the seed", "an integer of at most 256 bits, at least 0", seed)
    words = [seed >> 64 * k & (2**64 - 1) for k in range(4)]
    return constant(np.array([*words, 0, 0, 0, 0, 2**63, 0], "uint64"))


# ---- annotations ---------------------------------------------------------------------------------------------------------


@_at("annotation.stop_fusion")
def stop_fusion(data: Any) -> Call:
    """The data, with a kernel that computes nothing that follows.  Raises ArgumentError."""
    return _call("annotation.stop_fusion", data)


@_at("annotation.on_device")
def on_device(body: Any, device: str, constrain_result: bool = False, constrain_body: bool = True) -> Call:
    """The value of ``body``, computed on a device: ``relay.cpu()``, or the target of the program.

    The result is on that device; users of it on another device get a copy, with ``constrain_result`` too.
    Raises ArgumentError for a device that is no text, and for ``constrain_body=False``.
    """
    if not constrain_body:
        message = "on_device: constrain_body=False would constrain nothing but the result, which has the place of the body"
        raise ArgumentError(message, here(), help="leave constrain_body out, or write relay.device_copy(body, source, device)")
    a_text(device, "on_device: the device", "relay.cpu()")
    return _call("on_device", body, device=device)


@_at("device_copy")
def device_copy(data: Any, src_device: str, dst_device: str) -> Call:
    """A copy of a tensor that is on one device, on another.  Raises ArgumentError for a device that is no text."""
    devices = [a_text(device, "device_copy: the device", "relay.cpu()") for device in (src_device, dst_device)]
    return _call("device_copy", data, src=devices[0], dst=devices[1])
