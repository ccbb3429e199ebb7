"""Link object code into this process, after a check of every symbol.

``memory_image`` maps the objects of kernels.  LLVM's linker maps other objects, and all objects on other platforms: LLVM's import
takes a tenth of a second, a fifth of a process that finds all its kernels in the store.  An unresolved symbol would make LLVM
abort the whole process, so the symbols are read before linking.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Mapping, Sequence

from ..front_end.llvm import host
from ..jit.native_compiler import ObjectCode, has_near_constants
from .memory_image import Unsupported, map_functions, map_image
from .object_file import UNDEFINED, objects_in, read_object
from .object_file import LinkError as LinkError

#: Symbols that numba puts on the path of a Python exception.  Compiled code here has no exceptions (it returns a status), so
#: without numba in the process the symbols may resolve to ``abort``.
_NEVER_CALLED = {
    "numba_gil_ensure", "numba_gil_release", "numba_do_raise", "numba_unpickle", "numba_runtime_build_excinfo_struct",
    "NRT_incref", "NRT_decref", "NRT_MemInfo_call_dtor",
}  # fmt: skip


#: Names that LLVM knows from the parts of other objects.
_of_parts: set[str] = set()


def load(object_code: ObjectCode) -> int:
    """Map object code into the process; the address of its entry point.  Raises LinkError."""
    if object_code.code[:4] != b"\x7fELF":
        return _by_llvm(object_code.code, [object_code.symbol])[object_code.symbol]
    first, *parts = objects_in(object_code.code)
    shared = _functions_of_all(parts)
    try:
        return map_image(read_object(first), object_code.symbol, lambda name: shared.get(name) or _address(name))
    except Unsupported:
        return load_by_llvm(object_code)


def load_by_llvm(object_code: ObjectCode) -> int:
    """As ``load``, by LLVM's linker, for ELF objects that the linker of this package does not support."""
    first, *parts = objects_in(object_code.code)
    _resolve(read_object(first).undefined_symbols(), _functions_of_all(parts))
    return _by_llvm(first, [object_code.symbol])[object_code.symbol]


def _functions_of_all(parts: Sequence[bytes]) -> dict[str, int]:
    """The functions of parts, which call functions of later parts."""
    shared: dict[str, int] = {}
    for part in reversed(parts):
        shared |= _functions_of(part, tuple((name, shared[name]) for name in _outside(part) if name in shared))
    return shared


@functools.cache
def _outside(part: bytes) -> tuple[str, ...]:
    """The functions that a part calls and does not have."""
    return tuple(read_object(part).undefined_symbols())


@functools.cache
def _functions_of(part: bytes, called: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """The functions of a part, mapped once for all kernels of the process; ``called``: functions of other parts."""
    found, shared = read_object(part), dict(called)
    names = [s.name for s in found.symbols if s.is_global and s.section != UNDEFINED]
    try:
        return map_functions(found, names, lambda name: shared.get(name) or _address(name))
    except Unsupported:
        _resolve(found.undefined_symbols(), shared)
        return _by_llvm(part, names)


def _by_llvm(code: bytes, names: Sequence[str]) -> dict[str, int]:
    """The functions of one object."""
    found = host.map_object(code, names, has_near_constants())
    if missing := [name for name, address in found.items() if not address]:
        raise LinkError(f"object code has no function {missing[0]}")
    return found


@functools.cache
def _libraries() -> tuple[ctypes.CDLL, ...]:
    """The libraries searched for symbols: Python, the C library, the mathematical one."""
    found = [ctypes.pythonapi, ctypes.CDLL(None)]
    with contextlib.suppress(OSError):  # elsewhere libm is part of the C library
        found.append(ctypes.CDLL("libm.so.6"))
    return tuple(found)


def _address(name: str) -> int | None:
    """The address of a function of the libraries; None if it is in none of them."""
    for library in _libraries():
        with contextlib.suppress(ValueError):  # an unknown symbol
            return ctypes.addressof(ctypes.c_char.in_dll(library, name))
    return None


def _resolve(names: list[str], shared: Mapping[str, int]) -> None:
    """Let LLVM find the symbols.  ``shared`` are functions of parts: of two parts with one name, those of this object."""
    for name in names:
        if name in shared:
            host.add_symbol(name, shared[name])
            _of_parts.add(name)
            continue
        if name not in _of_parts and host.knows_symbol(name):
            continue
        address = _address("abort" if name in _NEVER_CALLED else name)
        if address is None:
            raise LinkError(f"object code needs the unknown symbol {name}")
        host.add_symbol(name, address)
