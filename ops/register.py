"""Operators of users: declared in a few lines, and other shape functions for those that there are.

    def kernel(data, count, out):               # numba compiles it; arrays in, a status out (0: fine)
        ...

    relay.register_shape_func("my.head", [False, True], lambda inputs, attrs: (inputs[1].values[0], *inputs[0].shape[1:]))
    relay.register_op("my.head", ["data", "count"], kernel=kernel, dtype=lambda dtypes, attrs: dtypes[0])

From then on it is an operator as any other: ``my.head(%x, %n)`` in a text, ``relay.my.head(x, n)`` in Python.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from ..shape_funcs.registry import SHAPE_FUNCS, ShapeFunc, ShapeFuncBody, replace_shape_func
from ..shape_funcs.registry import register_shape_func as declare_shape_func
from ..shape_funcs.registry import restore_shape_func as restore_shape_func
from .broadcast import broadcast
from .compute import Compute, Scalar, Value
from .dtype_rules import DTYPES, like_inputs
from .implementation import Kernel
from .kernels.cuda.per_element import per_element
from .native.memory import generic
from .op import REGISTRY, DTypeRule, NoAttrs, Op, OpPattern

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
#: Operators that `register_op` declared.
_OWN: set[str] = set()


def register_op(
    name: str,
    inputs: Sequence[str],
    *,
    element: Callable[..., Scalar] | None = None,
    kernel: Callable[..., int] | None = None,
    dtype: DTypeRule | None = None,
    dtypes: Sequence[str] = DTYPES,
    attrs: type = NoAttrs,
    cuda: str | Callable[[Any], Any] | None = None,
    doc: str = "",
) -> Op:
    """Declare the operator ``name``.  One of ``element`` and ``kernel`` says what it computes.

    ``element(*elements, **attributes)`` gives one element of the result as an expression over the elements of the inputs at
    the same place (see ``ops.compute``); inputs broadcast.  It is fused with what is around it, on every device.

    ``kernel(*inputs, *results, **attributes)`` is a plain function over C-contiguous arrays that numba compiles (no exceptions;
    a scalar is an array of one element); it fills the results and returns 0, or a status of ``ops.native.status``.  Its shape
    function is registered before, with ``register_shape_func``.

    ``inputs``: their names; one that ends in ``*`` is a tuple.  ``dtype(dtypes, attrs)``: the result's dtype, a tuple for several
    results; None: all inputs have one of ``dtypes``, and so has the result.  ``attrs``: a frozen dataclass with a default or a
    type for each attribute.  ``cuda``: for a ``kernel``, CUDA C that runs once for each element ``at`` of the first result (see
    ``ops.kernels.cuda.per_element``), or a function as in ``Kernel.cuda``.  ``doc``: one sentence; by default the docstring.
    Raises ValueError for what is no operator.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"an operator's name is words with dots between them, not {name!r}")
    if (element is None) == (kernel is None):
        raise ValueError(f"operator {name!r}: give either element or kernel")
    if element is not None and cuda is not None:
        raise ValueError(f"operator {name!r}: an element is an expression for every device; cuda goes with kernel")
    if kernel is not None and name not in SHAPE_FUNCS:
        raise ValueError(f"operator {name!r} has no shape function: register one with register_shape_func({name!r}, ...)")
    op = Op(
        name=name,
        doc=doc or inspect.getdoc(element or kernel) or f"The operator `{name}` of a user.",
        inputs=tuple(inputs),
        pattern=OpPattern.OPAQUE if kernel else OpPattern.ELEMWISE if len(inputs) == 1 else OpPattern.BROADCAST,
        dtype=dtype or like_inputs(name, inputs, dtypes),
        attrs=attrs,
        compute=_element_wise(element) if element else None,
        kernels=(_kernel(kernel, cuda),) if kernel else (),
    )
    _OWN.add(name)
    return op


def _kernel(body: Callable[..., int], cuda: str | Callable[[Any], Any] | None) -> Kernel:
    return Kernel("user", generic(body), attrs=asdict, cuda=per_element(cuda) if isinstance(cuda, str) else cuda, refuses=True)


def _element_wise(element: Callable[..., Scalar]) -> Compute:
    def compute(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
        return element(*(broadcast(x, axes, output) for x in inputs), **asdict(attrs))

    return compute


def unregister_op(name: str) -> None:
    """Forget an operator that `register_op` declared, with its shape function.  Raises ValueError for any other."""
    if name not in _OWN:
        raise ValueError(f"operator {name!r} was not declared with register_op")
    _OWN.remove(name)
    del REGISTRY[name]
    SHAPE_FUNCS.pop(name, None)


def register_shape_func(
    op: str, data_dependent: bool | Sequence[bool] = False, func: ShapeFuncBody | None = None, *, upper_bound: bool = False
) -> Any:
    """Register ``func`` as the shape function of the operator called ``op``, or the function that is decorated.

    ``data_dependent``: one flag per input saying whether the function reads that input's *values* (a single bool holds for all
    inputs): only these are copied to the host.  ``upper_bound``: the result has ``result_size`` dims, whose true sizes the
    kernel reports.  With ``func`` given, a shape function that there is already is replaced, flags and all, for programs that
    are compiled from now on; `restore_shape_func` brings it back.  Raises ValueError for a wrong number of flags.
    """
    flags = (data_dependent,) if isinstance(data_dependent, bool) else tuple(data_dependent)
    if op in REGISTRY:
        count = len(REGISTRY[op].inputs)
        if len(flags) not in (1, count) or (len(flags) == 1 < count and not isinstance(data_dependent, bool)):
            raise ValueError(f"operator {op!r} has {count} inputs ({', '.join(REGISTRY[op].inputs)}), not {len(flags)} flags")
        if upper_bound and not REGISTRY[op].kernels:
            raise ValueError(f"operator {op!r} has no kernel of its own that could report a size")
    if func is None:
        return declare_shape_func(op, data_dependent, upper_bound=upper_bound)
    if op in SHAPE_FUNCS or op in REGISTRY:
        replace_shape_func(ShapeFunc(op, func, flags, upper_bound))
        return func
    return declare_shape_func(op, data_dependent, upper_bound=upper_bound)(func)
