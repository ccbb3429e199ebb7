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
    """A function that kernels share: ``symbol`` in object code.

    ``symbol`` with ``function``, and all that it calls, determines its code.  ``emit(module)`` emits it into an LLVM module,
    which may call other parts.  ``loops``: whether LLVM makes faster code of its loops.
    """

    symbol: str
    function: Callable[..., Any]
    emit: Callable[[Any], Any]
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
