"""User-defined operators, and user-defined shape functions of existing operators.

    def kernel(data, count, out):               # machine code; arguments: arrays; result: a status (0: success)
        ...

    relay.register_shape_func("my.head", [False, True], lambda inputs, attrs: (inputs[1].values[0], *inputs[0].shape[1:]))
    relay.register_op("my.head", ["data", "count"], kernel=kernel, dtype=lambda dtypes, attrs: dtypes[0])

The operator is then available as ``my.head(%x, %n)`` in program text and ``relay.my.head(x, n)`` in Python.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from ...shape_funcs.symbolic.dim import RESULT, Dim, dim
from ...shape_funcs.symbolic.registry import (
    SHAPE_FUNCS,
    InputFlags,
    ShapeError,
    ShapeFunc,
    ShapeFuncBody,
    are_replaced,
    remove_shape_func,
    replace_shape_func,
)
from ...shape_funcs.symbolic.registry import register_shape_func as declare_shape_func
from ...shape_funcs.symbolic.registry import restore_shape_func as restore_shape_func
from ..core.dtype_rules import like_inputs
from ..core.implementation import Kernel
from ..core.op import REGISTRY, DTypeRule, NoAttrs, Op, OpPattern, TypeRelError
from ..core.tensor_types import DTYPES
from ..native.memory import generic
from ..native.user_function import as_kernel

if TYPE_CHECKING:
    from ..core.compute import Compute, Scalar, Value

_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
#: Names of the operators declared by `register_op`.
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
    """Declare the operator ``name``, computed by exactly one of ``element`` and ``kernel``.

    ``element(*elements, **attributes)``: one element of the result as an expression over the input elements at the same index
    (see ``ops.core.compute``); inputs broadcast.  The operator is fusable on every device.

    ``kernel(*inputs, *results, **attributes)``: a plain function over C-contiguous arrays, compiled to machine code (no
    exceptions; a scalar is an array of one element).  It fills the results and returns 0, or a status of ``custom_op``.
    Where the shape function has an upper bound, an int64 array after the results takes the true sizes.  The shape function must
    be registered first, with ``register_shape_func``.

    ``inputs``: the names of the inputs; a name ending in ``*`` is a tuple.  ``dtype(dtypes, attrs)``: the dtype of the result, a
    tuple for several results; None: all inputs have the same dtype out of ``dtypes``, and so has the result.  ``attrs``: a frozen
    dataclass with a default or a type for each attribute.  ``cuda``: for a ``kernel``, CUDA C that runs once for each element
    ``at`` of the first result (see ``ops.codegen.cuda.custom_element``), ``custom_op.one_block(text)``, or a function as in
    ``Kernel.cuda``.  ``doc``: one sentence; by default the docstring.  Raises ValueError for an invalid declaration.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"an operator's name is words with dots between them, not {name!r}")
    REGISTRY.complete()  # a name of ours is taken
    if (element is None) == (kernel is None):
        raise ValueError(f"operator {name!r}: give either element or kernel")
    if element is not None and cuda is not None:
        raise ValueError(f"operator {name!r}: an element is an expression for every device; cuda goes with kernel")
    if kernel is not None and not inspect.isfunction(getattr(kernel, "py_func", kernel)):
        raise ValueError(f"operator {name!r}: a kernel is a function in Python, not {_described(kernel)}")
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


def _described(thing: Any) -> str:
    return f"the {type(thing).__name__} {getattr(thing, '__name__', '')}".rstrip()


def _kernel(body: Callable[..., int], cuda: str | Callable[[Any], Any] | None) -> Kernel:
    from ..codegen.cuda.custom_element import per_element  # the code generator, which a run of a compiled program does without

    plain = getattr(body, "py_func", body)  # of a function that numba has compiled
    own = generic(as_kernel(plain, f"kernel_of_user_{plain.__code__.co_firstlineno}"))  # no name of ours, and not changed
    return Kernel("user", own, attrs=asdict, cuda=per_element(cuda) if isinstance(cuda, str) else cuda, refuses=True)


def _element_wise(element: Callable[..., Scalar]) -> Compute:
    from ..defs.arithmetic.broadcast import broadcast  # the operators, which a run of a compiled program does without

    def compute(inputs: tuple[Value, ...], axes: tuple[Scalar, ...], attrs: Any, output: Value) -> Scalar:
        return element(*(broadcast(x, axes, output) for x in inputs), **asdict(attrs))

    return compute


def has_own_declarations() -> bool:
    """Whether operators of users are declared, or shape functions of users replace others."""
    return bool(_OWN) or are_replaced()


def unregister_op(name: str) -> None:
    """Remove an operator declared by `register_op`, and its shape function.  Raises ValueError for any other operator."""
    if name not in _OWN:
        raise ValueError(f"operator {name!r} was not declared with register_op")
    _OWN.remove(name)
    del REGISTRY[name]
    remove_shape_func(name)


def register_shape_func(
    op: str, data_dependent: bool | Sequence[bool] = False, func: ShapeFuncBody | None = None, *, upper_bound: bool = False
) -> Any:
    """Register ``func`` as the shape function of the operator ``op``; without ``func``, return a decorator.

    ``data_dependent``: per input, whether the function reads the input's *values*; only flagged inputs are copied to the host.  A
    single bool holds for all inputs.  ``upper_bound``: whether results begin with a ``custom_op.result_size``, whose true value
    the kernel reports.  With ``func``, an existing shape function and its flags are replaced, for programs compiled afterwards;
    `restore_shape_func` restores it.  Raises ValueError for a wrong number of flags.
    """
    flags = InputFlags.of(data_dependent)
    if op in REGISTRY:
        inputs = REGISTRY[op].inputs
        if not flags.fit(len(inputs)):
            given = len(flags.of_inputs(1))
            raise ValueError(f"operator {op!r} has {len(inputs)} inputs ({', '.join(inputs)}), not {given} flags")
        if upper_bound and not REGISTRY[op].kernels:
            raise ValueError(f"operator {op!r} has no kernel of its own that could report a size")
    if func is None:
        return lambda body: (declare_shape_func(op, data_dependent, upper_bound=upper_bound)(_guarded(body, upper_bound)), body)[
            1
        ]
    body = _guarded(func, upper_bound)
    if op in SHAPE_FUNCS or op in REGISTRY:
        replace_shape_func(ShapeFunc(op, body, flags, upper_bound))
        return func
    declare_shape_func(op, data_dependent, upper_bound=upper_bound)(body)
    return func


def _guarded(func: ShapeFuncBody, upper_bound: bool) -> ShapeFuncBody:
    """The shape function; whatever it raises, and a result that is no shape, is a ShapeError with the line in its text."""

    @functools.wraps(func)
    def body(inputs: Any, attrs: Any) -> Any:
        try:
            found = func(inputs, attrs)
            listed = tuple(found)
            shapes = listed if listed and not isinstance(listed[0], (int, Dim)) else (listed,)
            if any(not isinstance(d, (int, Dim)) for shape in shapes for d in tuple(shape)):
                raise TypeError("its result is no shape and no tuple of shapes")
            _demand_bounds([[dim(d) for d in shape] for shape in shapes], upper_bound)
        except (ShapeError, TypeRelError):
            raise
        except Exception as error:
            code = inspect.unwrap(func).__code__ if hasattr(func, "__code__") else None
            at = error.__traceback__
            lines = [t.tb_lineno for t in _frames(at) if t.tb_frame.f_code is code]
            place = f"{code.co_filename}:{lines[-1] if lines else code.co_firstlineno}" if code else repr(func)
            raise ShapeError(f"its shape function, {place}: {type(error).__name__}: {error}") from error
        return found

    return body


def _demand_bounds(shapes: Sequence[Sequence[Dim]], upper_bound: bool) -> None:
    """Raise TypeError unless each size that a kernel reports is the first of a declared upper bound."""
    reported = [d for shape in shapes for d in shape if d.has_result]
    if reported and not upper_bound:
        raise TypeError("a result_size needs register_shape_func(..., upper_bound=True)")
    if any(d.has_result and (axis or d.op != RESULT) for shape in shapes for axis, d in enumerate(shape)):
        raise TypeError("a result_size is the first size of a result, alone: no other size, and no part of a sum or product")


def _frames(traceback: Any) -> Iterator[Any]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next
