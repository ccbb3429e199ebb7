"""Users' functions outside the subset that the front end knows, compiled by numba.

numba compiles an adapter with a C signature, of pointers, sizes and numbers; the text of its module is linked.  Only public names
of numba are used: ``njit``, ``cfunc``, ``carray``, ``types``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir

from ....declarations.frozen_dataclass import frozen
from ...core.tensor_types import HALVES
from ..generated_source import define
from .values.machine_types import (
    BOOL,
    INT64,
    NOTHING,
    Array,
    Boolean,
    Integer,
    Real,
    Static,
    Tuple,
    Type,
    Value,
    items,
    llvm_parts,
)
from .values.scalars import Outside, cast

#: Options of every function: no exceptions, IEEE division.
OPTIONS = {"nogil": True, "error_model": "numpy", "boundscheck": False}
#: The beginning of the names of functions of numba's runtime that make arrays.
_ALLOCATION = "@NRT_MemInfo_alloc"


@frozen
class NumbaFunction:
    """Code compiled by numba: the C function ``symbol`` in the LLVM module ``text``, and the type of its result."""

    symbol: str
    text: str
    result: Type


class _Adapter:
    """The text of the adapter of a function for arguments of some types."""

    def __init__(self) -> None:
        self.parameters: list[tuple[str, Any]] = []  # names and numba types
        self.names: dict[str, Any] = {}

    def argument(self, kind: Type) -> str:
        """The expression of an argument over the parameters."""
        import numba

        if isinstance(kind, Array):
            if kind.dtype in HALVES:
                raise Outside(f"an array of {kind.dtype} in a function that numba compiles")
            data = self._parameter(numba.types.CPointer(_element(kind.dtype)))
            sizes = [self._parameter(numba.types.int64) for _ in range(kind.rank)]
            self.names["carray"] = numba.carray
            return f"carray({data}, ({', '.join(sizes)},))"
        if isinstance(kind, Boolean):
            return f"({self._parameter(numba.types.int64)} != 0)"
        if isinstance(kind, Integer):
            return self._parameter(getattr(numba.types, f"{'' if kind.signed else 'u'}int{kind.bits}"))
        if isinstance(kind, Real):
            return self._parameter(getattr(numba.types, f"float{kind.bits}"))
        if isinstance(kind, Tuple):
            return f"({''.join(f'{self.argument(item)}, ' for item in kind.items)})"
        if isinstance(kind, Static):
            name = f"static{len(self.names)}"
            self.names[name] = kind.value
            return name
        raise Outside(f"an argument of {kind} in a function that numba compiles")

    def _parameter(self, kind: Any) -> str:
        self.parameters.append((f"p{len(self.parameters)}", kind))
        return self.parameters[-1][0]


def _element(dtype: str) -> Any:
    import numba

    return numba.types.boolean if dtype == "bool" else getattr(numba.types, dtype)


class MadeArray(TypeError):
    """A function makes an array; ``loc``: numba's place of the call that makes it, None if it is not found."""

    def __init__(self, function: Any) -> None:
        self.loc = _place_of_array(function)
        super().__init__("it makes an array, by numba's runtime, which is absent where the code comes from the cache")


def _place_of_array(function: Any) -> Any:
    """numba's place of the first operation of a compiled function whose result is a new array."""
    import numba

    makers = {"call", "binop", "unary", "inplace_binop"}
    found = [
        node.loc
        for overload in function.overloads.values()
        for node, signature in overload.type_annotation.calltypes.items()
        if getattr(node, "op", "") in makers and isinstance(signature.return_type, numba.types.Array)
    ]
    return min(found, key=lambda loc: loc.line, default=None)


def compiled_by_numba(function: Callable[..., Any], kinds: tuple[Type, ...]) -> NumbaFunction:
    """Compile a function for arguments of these types.  Raises Outside for types that numba cannot have, and errors of numba."""
    import numba

    adapter = _Adapter()
    arguments = [adapter.argument(kind) for kind in kinds]
    body = function if hasattr(function, "py_func") else numba.njit(**OPTIONS)(function)
    namespace = {**adapter.names, "body": body}
    text = f"def adapter({', '.join(name for name, _ in adapter.parameters)}):\n    return body({', '.join(arguments)})\n"
    entry = numba.njit(**OPTIONS)(define("adapter", text, namespace)["adapter"])
    entry.compile(tuple(kind for _, kind in adapter.parameters))
    (returned,) = (each.return_type for each in entry.nopython_signatures)
    made = numba.cfunc(returned(*(kind for _, kind in adapter.parameters)), **OPTIONS)(entry.py_func)
    module = made.inspect_llvm()
    if _ALLOCATION in module:
        raise MadeArray(body)
    return NumbaFunction(made.native_name, module, _result(returned))


def _result(kind: Any) -> Type:
    import numba

    if kind == numba.types.none:
        return NOTHING
    if isinstance(kind, numba.types.Integer):
        return Integer(kind.bitwidth, kind.signed)
    if isinstance(kind, numba.types.Float):
        return Real(kind.bitwidth)
    raise Outside(f"a result of {kind} in a function that numba compiles")


def declared(module: ir.Module, function: NumbaFunction, kinds: tuple[Type, ...]) -> ir.Function:
    """The declaration of a function in the module; arguments as from ``c_arguments``."""
    result = llvm_parts(function.result)
    parts = [part for kind in kinds for part in _c_parts(kind)]
    return ir.Function(module, ir.FunctionType(result[0] if result else ir.VoidType(), parts), function.symbol)


def _c_parts(kind: Type) -> list[ir.Type]:
    if isinstance(kind, Boolean):
        return llvm_parts(INT64)
    return [part for item in kind.items for part in _c_parts(item)] if isinstance(kind, Tuple) else llvm_parts(kind)


def c_arguments(b: Any, value: Value) -> list[Any]:
    """The parts of an argument as the adapter takes them."""
    if value.type == BOOL:
        return [cast(b, value, INT64).scalar]
    if isinstance(value.type, Tuple):
        return [part for item in items(value) for part in c_arguments(b, item)]
    return list(value.parts)
