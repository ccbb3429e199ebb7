"""``ToMixedPrecision`` and ``recast``: part of a program of float32 in another dtype.

Products and convolutions are computed in the other dtype, other operators follow or stay: see ``_Kind``.  Kernels add in float32
and round once (see ``ops.core.tensor_types.computed_in``), so a product needs no wider result.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from ...ops.core.op import Op, OpPattern, get
from ...ops.core.tensor_types import TensorType, TupleType, Type, is_float
from ...vm.diagnostics.argument_errors import a_sequence, wrong
from ..builder.build import a_dtype
from ..ir.expr import Call, Expr, Function, IRModule, Tuple, replace
from ..ir.visitor import children, free_vars, post_order, with_children
from .inlining import graph_of
from .requirements import with_requirements

WIDE = "float32"


class _Kind(enum.Enum):
    """``ALWAYS``: computed in the other dtype.  ``FOLLOW``: if an argument is.  ``NEVER``: computed in float32."""

    ALWAYS = "always"
    FOLLOW = "follow"
    NEVER = "never"


_PRODUCTS = frozenset(
    ("nn.dense", "nn.matmul", "nn.batch_matmul", *(f"nn.conv{n}d{more}" for n in (1, 2, 3) for more in ("", "_transpose")))
)
#: Elementwise operators whose results leave the range of float16, or lose its precision.
_WIDE_OPERATORS = frozenset(
    ("exp", "log", "log2", "log10", "power", "sqrt", "rsqrt", "erf", "tan", "sinh", "cosh", "cast", "fast_exp", "fast_erf")
)
_FOLLOWING = (OpPattern.ELEMWISE, OpPattern.BROADCAST, OpPattern.INJECTIVE, OpPattern.RESHAPE)


def _kind(op: Op, ty: Type | None) -> _Kind:
    if op.name in _PRODUCTS:
        return _Kind.ALWAYS
    follows = op.pattern in _FOLLOWING or op.name.startswith("nn.max_pool") or op.name == "nn.global_max_pool2d"
    own_dtype = any(hasattr(op.attrs, name) for name in ("dtype", "out_dtype"))
    return _Kind.FOLLOW if follows and not own_dtype and op.name not in _WIDE_OPERATORS and _is_wide(ty) else _Kind.NEVER


def _is_wide(ty: Type | None) -> bool:
    return isinstance(ty, TensorType) and ty.dtype == WIDE


def to_mixed_precision(mod: IRModule, dtype: str, keep_result: bool) -> IRModule:
    """The typed module with products and convolutions of float32 in ``dtype``.

    ``keep_result``: whether ``main`` keeps its result type; other functions always do.  Parameters keep their types.
    """
    functions = {}
    for name, f in mod.functions.items():
        graph = f if f.is_primitive else graph_of(f, mod)
        functions[name] = graph if f.is_primitive else _Narrowed(dtype).function(graph, keep_result or name != "main")
    return replace(mod, functions=functions)


class _Narrowed:
    """The new expressions of a function: each in float32, in the narrow dtype, or both, with a cast from one to the other."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.wide: dict[int, Expr] = {}
        self.narrow: dict[int, Expr] = {}

    def function(self, function: Function, keep_result: bool) -> Function:
        for node in post_order(function.body):
            self._add(node)
        body = function.body
        if keep_result or id(body) not in self.narrow or isinstance(body, Tuple):
            return replace(function, body=self._wide(body), ty=None)
        return replace(function, body=self.narrow[id(body)], ret_type=None, ty=None)

    def _add(self, node: Expr) -> None:
        kind = _kind(node.op, node.ty) if isinstance(node, Call) and isinstance(node.op, Op) else _Kind.NEVER
        if kind is _Kind.FOLLOW and not any(id(part) in self.narrow for arg in children(node) for part in _tensors(arg)):
            kind = _Kind.NEVER
        if kind is _Kind.NEVER or not _is_wide(node.ty):
            if not isinstance(node, Tuple):  # a tuple is made for each call that takes it
                self.wide[id(node)] = _retyped(node, tuple(self._wide(part) for part in children(node)))
            return
        assert isinstance(node, Call)
        attrs = replace(node.attrs, out_dtype=self.dtype) if getattr(node.attrs, "out_dtype", None) == WIDE else node.attrs
        args = tuple(self._narrow(arg) for arg in node.args)
        self.narrow[id(node)] = replace(node, args=args, attrs=attrs, ty=None)

    def _wide(self, node: Expr) -> Expr:
        if id(node) not in self.wide:
            if isinstance(node, Tuple):
                self.wide[id(node)] = _retyped(node, tuple(map(self._wide, node.fields)))
            else:
                self.wide[id(node)] = _cast(self.narrow[id(node)], WIDE)
        return self.wide[id(node)]

    def _narrow(self, node: Expr) -> Expr:
        if isinstance(node, Tuple):
            return _retyped(node, tuple(map(self._narrow, node.fields)))
        if not _is_wide(node.ty):
            return self._wide(node)
        if id(node) not in self.narrow:
            self.narrow[id(node)] = _cast(self.wide[id(node)], self.dtype)
        return self.narrow[id(node)]


def _tensors(arg: Expr) -> tuple[Expr, ...]:
    return arg.fields if isinstance(arg, Tuple) else (arg,)


def _retyped(node: Expr, parts: tuple[Expr, ...]) -> Expr:
    new = with_children(node, parts)
    return new if new is node else replace(new, ty=None)


def _cast(expr: Expr, dtype: str) -> Call:
    op = get("cast")
    return Call(op, (expr,), op.attrs(dtype), span=expr.span)


# ---- chosen operators ----------------------------------------------------------------------------------------------------


def recast(expr: Expr, dtype: str, out_dtype: str, ops: Sequence[str] = ("nn.conv2d",), skip_layers: Sequence[int] = ()) -> Expr:
    """The expression with the arguments of the operators ``ops`` cast to ``dtype``, and their results as before.

    ``out_dtype``: the dtype of the operator's own result.  ``skip_layers``: the numbers of calls that stay, in order; negative
    numbers count from the end.  Raises ArgumentError, TypeCheckError.
    """
    if not isinstance(expr, Expr):
        raise wrong("recast: the first argument", "an expression", expr)
    dtype, out_dtype = a_dtype(dtype), a_dtype(out_dtype)
    names = a_sequence(ops or (), "recast: the ops", '["nn.conv2d"]')
    function = expr if isinstance(expr, Function) else Function(tuple(free_vars(expr)), expr)
    mod = with_requirements(IRModule({"main": function}), ("InferType",))
    typed = graph_of(mod["main"], mod)
    nodes = post_order(typed)
    calls = [node for node in nodes if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in names]
    skipped = {range(len(calls))[n] for n in skip_layers or () if -len(calls) <= n < len(calls)}
    chosen = {id(call) for number, call in enumerate(calls) if number not in skipped}
    new: dict[int, Expr] = {}
    for node in nodes:
        mapped = _retyped(node, tuple(new[id(child)] for child in children(node)))
        new[id(node)] = _recast_call(mapped, node, dtype, out_dtype) if id(node) in chosen else mapped
    out = new[id(typed)]
    assert isinstance(out, Function)
    return out if isinstance(expr, Function) else out.body


def _recast_call(call: Expr, typed: Expr, dtype: str, out_dtype: str) -> Expr:
    assert isinstance(call, Call) and isinstance(typed, Call)
    if not isinstance(typed.ty, TensorType) or not is_float(typed.ty.dtype) or isinstance(typed.args[0].ty, TupleType):
        return call
    attrs: Any = replace(call.attrs, out_dtype=out_dtype) if hasattr(call.attrs, "out_dtype") else call.attrs
    narrow = replace(call, args=tuple(_cast(arg, dtype) for arg in call.args), attrs=attrs, ty=None)
    return _cast(narrow, typed.ty.dtype)
