"""What a function declares: the types of its parameters and of its result, with ``?`` and ``?n`` made symbols."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from ...ops.ty import FuncType, TensorType, TupleType, Type, known_extent
from ...shape_funcs.dims import ANY, INT, SYM, Dim, fresh, sym
from ...shape_funcs.program import INT64_MAX
from ...vm import codes
from ...vm.source import Diagnostic
from ..ir import Function
from .type_match import Misfit, generalize, join, symbols_of


@dataclass(frozen=True)
class _Mark(Type):
    """Stands where there is no type."""

    text: str

    def __str__(self) -> str:
        return self.text


#: The type of what failed to type: whatever uses it fails too, without a word.
FAILED = _Mark("<failed>")
#: The type of a recursive call whose function's result is not known yet.
BOTTOM = _Mark("<not known yet>")


@dataclass(frozen=True)
class Signature:
    """``result`` is BOTTOM while it is not known; ``names`` says which symbol each ``?n`` is."""

    name: str
    function: Function
    params: tuple[Type, ...]
    result: Type
    names: dict[str, Dim]

    @staticmethod
    def declared(name: str, function: Function, report: Callable[[Diagnostic], None], taken: Collection[str] = ()) -> Signature:
        """What ``function`` says of itself.  A ``?n`` that is ``taken`` by a function around it is another size.

        A parameter without a type is reported.
        """
        names: dict[str, Dim] = {}
        params = []
        for p in function.params:
            if p.annotation is None:
                example = f"%{p.name}: Tensor[(?, 4), float32]"
                report(
                    Diagnostic(
                        f"parameter %{p.name} of {name} has no type",
                        p.span,
                        help=f"say it: {example}",
                        code=codes.Type.ANNOTATION,
                    )
                )
                params.append(FAILED)
            else:
                params.append(declare(p.annotation, names, taken, fresh))
                if (large := _too_large(p.annotation)) is not None:
                    message = f"parameter %{p.name} of {name} would take {large}"
                    report(Diagnostic(message, p.span, help="no memory holds it", code=codes.Type.SIZE))
        result = BOTTOM if function.ret_type is None else declare(function.ret_type, names, taken, lambda: ANY)
        return Signature(name, function, tuple(params), result, names)

    def as_type(self) -> Type:
        """Its function type; BOTTOM or FAILED where its result is."""
        if isinstance(self.result, _Mark):
            return self.result
        return FuncType(self.params, generalize(self.result, symbols_of(*self.params)))


def _too_large(ty: Type) -> str | None:
    """A property in ``ty`` that no tensor can have, or None."""
    for t in _tensors_of(ty):
        elements, nbytes = known_extent(t.shape, t.dtype)
        if nbytes > INT64_MAX:
            return f"{nbytes} bytes" if elements <= INT64_MAX else f"{elements} elements"
    return None


def _tensors_of(ty: Type) -> list[TensorType]:
    """The tensors in a type, in order; those of function types are not included."""
    if isinstance(ty, TupleType):
        return [t for f in ty.fields for t in _tensors_of(f)]
    return [ty] if isinstance(ty, TensorType) else []


def declare(ty: Type, names: dict[str, Dim], taken: Collection[str] | None, unknown: Callable[[], Dim]) -> Type:
    """An annotation as a type: ``?`` is ``unknown()``, ``?n`` is ``names["n"]``, to which new names are added.

    A new name gets the symbol of that name, unless this is ``taken`` (None: all are); then it gets a fresh one.
    The names in a function type are its own.
    """

    def change(d: Dim) -> Dim:
        if d.op == INT:
            return d
        if d.op != SYM or d.args[0].startswith("."):
            return unknown()
        name = d.args[0]
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
    return ty


def closed_result(found: Type, signature: Signature) -> Type:
    """The result of a recursive function after one more round: ``found`` joined with what was known."""
    if isinstance(found, _Mark):
        return found if signature.result is BOTTOM else signature.result
    found = generalize(found, symbols_of(*signature.params))
    if isinstance(signature.result, _Mark):
        return found
    try:
        return join(found, signature.result, lambda: ANY)
    except Misfit:
        return signature.result
