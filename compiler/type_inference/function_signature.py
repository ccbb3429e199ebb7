"""Declared types of a function's parameters and result, with ``?`` and ``?n`` as symbols."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...declarations.frozen_dataclass import frozen
from ...ops.core.adt_types import RefType, TypeCall, map_type
from ...ops.core.tensor_types import FuncType, TensorType, TupleType, Type, known_extent
from ...shape_funcs.symbolic.dim import ANY, INT, Dim, fresh, name_of, sym
from ...shape_funcs.symbolic.int_operations import INT64_MAX
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, Span
from ..ir.expr import Function, Var
from .type_match import TypeMismatch, generalize, join, symbols_of


@frozen
class _Mark(Type):
    """A marker in place of a type."""

    text: str

    def __str__(self) -> str:
        return self.text


#: The type of an expression with a type error: its users fail without a message.
FAILED = _Mark("<failed>")
#: The type of a recursive call before its function's result is known.
BOTTOM = _Mark("<not known yet>")


@frozen
class Signature:
    """The declared types; ``result`` is BOTTOM until known; ``names``: the symbol of each ``?n``."""

    name: str
    function: Function
    params: tuple[Type, ...]
    result: Type
    names: dict[str, Dim]

    @staticmethod
    def declared(name: str, function: Function, report: Callable[[Diagnostic], None], taken: Collection[str] = ()) -> Signature:
        """The declared signature of ``function``.  A ``?n`` that is ``taken`` by an enclosing function is another size.

        A parameter without an annotation is FAILED (``parameter_types`` annotates, and reports those that have no type).
        """
        names: dict[str, Dim] = {}
        params: list[Type] = []
        for p in function.params:
            if p.annotation is None:
                params.append(FAILED)
            else:
                params.append(declare(p.annotation, names, taken, fresh))
                if (large := _too_large(p.annotation)) is not None:
                    message = f"parameter %{p.name} of {name} would take {large}"
                    report(Diagnostic(message, p.span, help="no memory holds it", code=codes.Type.SIZE))
        result = BOTTOM if function.ret_type is None else declare(function.ret_type, names, taken, lambda: ANY)
        return Signature(name, function, tuple(params), result, names)

    def as_type(self) -> Type:
        """The function type; BOTTOM or FAILED if the result is."""
        if isinstance(self.result, _Mark):
            return self.result
        return FuncType(self.params, generalize(self.result, symbols_of(*self.params)))


def without_type(param: Var, name: str, reason: tuple[str, Span | None] | None) -> Diagnostic:
    """The error of a parameter of the function ``name`` that no use gives a type; ``reason``: a note on a use."""
    return Diagnostic(
        f"parameter %{param.name} of {name} has no type",
        param.span,
        () if reason is None else (reason,),
        help=f"annotate it: %{param.name}: Tensor[(?, 4), float32]",
        code=codes.Type.ANNOTATION,
    )


def _too_large(ty: Type) -> str | None:
    """The size of a tensor in ``ty`` that no memory holds, as text; None if there is none."""
    for t in _tensors_of(ty):
        elements, nbytes = known_extent(t.shape, t.dtype)
        if nbytes > INT64_MAX:
            return f"{nbytes} bytes" if elements <= INT64_MAX else f"{elements} elements"
    return None


def _tensors_of(ty: Type) -> list[TensorType]:
    """The tensors in a type, in order, without the tensors of function types."""
    if isinstance(ty, TupleType):
        return [t for f in ty.fields for t in _tensors_of(f)]
    return [ty] if isinstance(ty, TensorType) else []


def declare(ty: Type, names: dict[str, Dim], taken: Collection[str] | None, unknown: Callable[[], Dim]) -> Type:
    """An annotation as a type: ``?`` is ``unknown()``, ``?n`` is ``names["n"]``, to which new names are added.

    A new name gets the symbol of that name, or a fresh symbol if the name is ``taken`` (None: all are).  The names in a function
    type are local to it.
    """

    def change(d: Dim) -> Dim:
        if d.op == INT:
            return d
        name = name_of(d)
        if name is None:
            return unknown()
        if name not in names:
            names[name] = fresh(name) if taken is None or name in taken else sym(name)
        return names[name]

    match ty:
        case TensorType():
            return TensorType(tuple(map(change, ty.shape)), ty.dtype)
        case TupleType():
            return TupleType(tuple(declare(f, names, taken, unknown) for f in ty.fields))
        case FuncType():
            own: dict[str, Dim] = {}
            params = tuple(declare(p, own, None, fresh) for p in ty.params)
            return FuncType(params, declare(ty.result, own, None, lambda: ANY))
        case TypeCall() | RefType():
            # the elements may differ in their unknown sizes
            return map_type(ty, _element)
    return ty


def _element(ty: Type) -> Type | None:
    """A part of the type of an ADT or a reference: a size that is no number is ``?``."""
    match ty:
        case TensorType():
            return TensorType(tuple(d if d.op == INT else ANY for d in ty.shape), ty.dtype)
        case RefType():
            return reference_to(ty.value)
    return None


def reference_to(ty: Type) -> RefType:
    """The type of a reference to values of type ``ty``, in which every size is ``?``: a write may change the sizes."""
    return RefType(map_type(ty, lambda t: TensorType((ANY,) * t.rank, t.dtype) if isinstance(t, TensorType) else None))


def closed_result(found: Type, signature: Signature) -> Type:
    """The result of a recursive function after one more iteration: ``found`` joined with the previous result."""
    if isinstance(found, _Mark):
        return found if signature.result is BOTTOM else signature.result
    found = generalize(found, symbols_of(*signature.params))
    if isinstance(signature.result, _Mark):
        return found
    try:
        return join(found, signature.result, lambda: ANY)
    except TypeMismatch:
        return signature.result
