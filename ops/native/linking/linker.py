"""Link object code into this process, after a check of every symbol.

``memory_image`` maps the objects of kernels.  LLVM's linker maps other objects, and all objects on other platforms: LLVM's import
takes a tenth of a second, a fifth of a process that finds all its kernels in the store.  An unresolved symbol would make LLVM
abort the whole process, so the symbols are read before linking.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Sequence
from typing import Any

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


@functools.cache
def _target() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(opt=3, codemodel="jitdefault", jit=True)


_alive: list[Any] = []  # engines own the code: they live as long as the process


def load(object_code: ObjectCode) -> int:
    """Map object code into the process; the address of its entry point.  Raises LinkError."""
    if object_code.code[:4] != b"\x7fELF":
        return _by_llvm(object_code.symbol, [object_code.code])
    first, *parts = objects_in(object_code.code)
    found, wanted = read_object(first), [read_object(part) for part in parts]
    try:
        shared = {name: address for part in parts for name, address in _functions_of(part).items()}
        return map_image(found, object_code.symbol, lambda name: shared.get(name) or _address(name))
    except Unsupported:
        own = {s.name for part in wanted for s in part.symbols if s.section != UNDEFINED}
        _resolve([name for each in (found, *wanted) for name in each.undefined_symbols() if name not in own])
        return _by_llvm(object_code.symbol, [first, *parts])


@functools.cache
def _functions_of(part: bytes) -> dict[str, int]:
    """The functions of a part, mapped once for all kernels of the process."""
    found = read_object(part)
    return map_functions(found, [s.name for s in found.symbols if s.is_global and s.section != UNDEFINED], _address)


def _by_llvm(symbol: str, objects: Sequence[bytes]) -> int:
    import llvmlite.binding as llvm

    target = _target()
    # the memory of a near object is reserved at once, else its parts might be more than 2 GiB apart
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target, use_lmm=has_near_constants() or None)
    for code in objects:
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    address: int = engine.get_function_address(symbol)
    if not address:
        raise LinkError(f"object code has no function {symbol}")
    _alive.append(engine)
    return address


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


def _resolve(names: list[str]) -> None:
    import llvmlite.binding as llvm

    for name in names:
        if llvm.address_of_symbol(name):
            continue
        address = _address("abort" if name in _NEVER_CALLED else name)
        if address is None:
            raise LinkError(f"object code needs the unknown symbol {name}")
        llvm.add_symbol(name, address)
