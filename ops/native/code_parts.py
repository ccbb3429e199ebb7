"""Parts of object code: functions that many kernels call, compiled once, to an object of their own.

The object code of a kernel is its own object, followed by the objects of its parts: it needs nothing else.  A kernel with tiles
of a product compiles in a quarter of the time where an earlier kernel has the same tiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...declarations.frozen_dataclass import frozen


@frozen
class Part:
    """Functions that kernels share.

    ``name`` with ``maker`` determines their code: the text of a module and of those that it uses, or a native function and all
    that it calls.  ``functions(module)`` emits them into an LLVM module, which may call other parts.  ``symbol``: the part is
    linked only if the optimized kernel still calls this function; "": always.
    ``loops``: whether LLVM makes faster code of its loops.
    """

    name: str
    maker: str | Callable[..., Any]
    functions: Callable[[Any], list[Any]]
    symbol: str = ""
    loops: bool = False


#: The parts that the functions of a module call, by name.
Parts = dict[str, Part]


def share_parts(module: Any) -> Parts:
    """Let functions of parts be declared only in an LLVM module; the parts, once the module is whole."""
    parts: Parts = {}
    module.relayvm_parts = parts
    return parts


def parts_of(module: Any) -> Parts | None:
    """The parts of an LLVM module; None for a module that has all code itself."""
    found: Parts | None = getattr(module, "relayvm_parts", None)
    return found


def is_declared_only(function: Any, name: str, maker: Callable[[Any], Any]) -> bool:
    """Whether an LLVM function of a module is declared only: ``maker(module)`` emits it into a part of its own, ``name``."""
    parts = parts_of(function.module)
    if parts is None:
        return False
    parts.setdefault(name, Part(name, maker.__module__, lambda module: [maker(module)], function.name, loops=True))
    return True
