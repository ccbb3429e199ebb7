"""Bodies of kernels that are parts of object code: kernels that differ in epilogues or sizes share one body.

A generic function marked ``apart`` is compiled to an object of its own for each combination of the types of its arguments and of
constants among these, for LLVM makes other code where a stride is 1; a function marked ``shared`` for the types alone.  Functions
that it is called with, such as an epilogue, stay with the kernel, and the body calls them by their addresses: once for many
elements.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from llvmlite import ir

from ..vector_registers import registers_name
from .values.machine_types import INT64, WORD, Pointer, Static, Tuple, Type, Value, llvm_parts

#: The parameter of a function in whose place is an array, and the parameter of the body that has its type, or begins with it.
_SUMS, _OUT = "sums", "out"


class Body(NamedTuple):
    """A body for arguments of some types: ``constants`` has an entry for each part of their values, None for another value."""

    function: Callable[..., Any]
    kinds: tuple[Type, ...]
    constants: tuple[ir.Constant | None, ...]

    @property
    def name(self) -> str:
        """The name, which no other body of this text has."""
        constants = [None if c is None else (str(c.type), repr(c.constant)) for c in self.constants]
        of = self.function.__module__, self.function.__qualname__, self.kinds, constants, registers_name()
        return f"relayvm.{self.function.__name__}.{hashlib.sha256(repr(of).encode()).hexdigest()[:20]}"

    @property
    def returns(self) -> bool:
        """Whether the function returns a word, as its annotation says."""
        return bool(self.function.__annotations__["return"] != "None")

    def declared(self, module: ir.Module) -> ir.Function:
        """The function in a module: it takes the parts of its arguments that are no constants."""
        if self.name in module.globals:
            return module.globals[self.name]
        parts = [part for kind in self.kinds for part in llvm_parts(kind)]
        given = [part for part, constant in zip(parts, self.constants, strict=True) if constant is None]
        return ir.Function(module, ir.FunctionType(WORD if self.returns else ir.VoidType(), given), self.name)

    def arguments(self, function: ir.Function) -> Iterator[Value]:
        """The values of the arguments in the function itself."""
        given, constants = iter(function.args), iter(self.constants)
        for kind in self.kinds:
            parts = [next(constants) for _ in llvm_parts(kind)]
            yield Value(kind, tuple(next(given) if constant is None else constant for constant in parts))


def is_apart(function: Callable[..., Any], arguments: list[Value]) -> bool:
    """Whether a function is compiled apart where it is called with these arguments."""
    return hasattr(function, "__apart__") and not any(
        _holds_object(a.type) and native_function(a.type) is None for a in arguments
    )


def pointer_kind(function: Callable[..., Any], body: Callable[..., Any], arguments: list[Value]) -> Pointer:
    """The type of a function in the place of an argument of ``body``, which is called with ``arguments``."""
    (out,) = (a.type for name, a in zip(_parameters(body), arguments, strict=True) if name == _OUT)
    array = out.items[0] if isinstance(out, Tuple) else out
    return Pointer(tuple(array if name == _SUMS else INT64 for name in _parameters(function)))


def body_for(function: Callable[..., Any], arguments: list[Value]) -> Body:
    """The body for these arguments, in which functions are pointers."""
    passed, constants = vars(function)["__apart__"], list[ir.Constant | None]()
    for name, argument in zip(_parameters(function), arguments, strict=True):
        stays = _is_compiled_for(name, argument.type, passed)
        constants += [p if isinstance(p, ir.Constant) and own else None for p, own in zip(argument.parts, stays, strict=True)]
    return Body(function, tuple(a.type for a in arguments), tuple(constants))


def _is_compiled_for(name: str, kind: Type, passed: Collection[str]) -> Iterator[bool]:
    """For each part of a parameter or a field, whether the body is compiled for its constants."""
    if name in passed or not isinstance(kind, Tuple):
        yield from [name not in passed] * len(llvm_parts(kind))
        return
    for field, item in zip(kind.names or [""] * len(kind.items), kind.items, strict=True):
        yield from _is_compiled_for(field, item, passed)


def body_of_types(function: Callable[..., Any], kinds: tuple[Type, ...]) -> Body:
    """The body for arguments of these types, whatever constants are given."""
    return Body(function, kinds, (None,) * sum(len(llvm_parts(kind)) for kind in kinds))


def native_function(kind: Type) -> Callable[..., Any] | None:
    """The native function that a type is; None for another type."""
    thing = kind.value if isinstance(kind, Static) else None
    return thing if getattr(thing, "__native__", None) in ("function", "generic") else None


def _holds_object(kind: Type) -> bool:
    """Whether a type holds an object of Python."""
    return any(map(_holds_object, kind.items)) if isinstance(kind, Tuple) else isinstance(kind, Static)


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return function.__code__.co_varnames[: function.__code__.co_argcount]
