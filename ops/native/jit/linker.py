"""Link object code into this process by LLVM's linker, after a check of every symbol.

An unresolved symbol would make LLVM abort the whole process, so the ELF symbol table is read before linking. Needs llvmlite only:
a process that finds all its kernels in the store never imports numba.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import struct
from typing import Any

from .native_compiler import ObjectCode, has_near_constants


class LinkError(Exception):
    """Object code that cannot be mapped into this process."""


#: Symbols that numba puts on the path of a Python exception.  Compiled code here has no exceptions (it returns a status), so
#: without numba in the process the symbols may resolve to ``abort``.
_NEVER_CALLED = {
    "numba_gil_ensure", "numba_gil_release", "numba_do_raise", "numba_unpickle", "numba_runtime_build_excinfo_struct",
    "NRT_incref", "NRT_decref", "NRT_MemInfo_call_dtor",
}  # fmt: skip


def undefined_symbols(code: bytes) -> list[str]:
    """The undefined symbols of an ELF64 little-endian object.  Raises LinkError for any other file."""
    try:
        if code[:6] != b"\x7fELF\x02\x01":
            raise LinkError("not a 64-bit ELF object")
        (table_offset,) = struct.unpack_from("<Q", code, 40)
        entry_size, n_sections, _ = struct.unpack_from("<HHH", code, 58)
        sections = [struct.unpack_from("<IIQQQQIIQQ", code, table_offset + i * entry_size) for i in range(n_sections)]
        names = []
        for _, kind, _, _, offset, size, link, _, _, item in sections:
            if kind != 2:  # SHT_SYMTAB
                continue
            strings = sections[link][4]
            for at in range(offset, offset + size, item):
                name, _info, _other, section, _value, _size = struct.unpack_from("<IBBHQQ", code, at)
                if section == 0 and name:
                    start = strings + name
                    names.append(code[start : code.index(b"\0", start)].decode())
        return names
    except (struct.error, IndexError, ValueError, ZeroDivisionError) as error:
        raise LinkError(f"damaged object: {error}") from error


@functools.cache
def _target() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(opt=3, codemodel="jitdefault", jit=True)


_alive: list[Any] = []  # engines own the code: they live as long as the process


def load(object_code: ObjectCode) -> int:
    """Map object code into the process; the address of its entry point.  Raises LinkError."""
    import llvmlite.binding as llvm

    target = _target()
    if object_code.code[:4] == b"\x7fELF":
        _resolve(undefined_symbols(object_code.code))
    # the memory of a near object is reserved at once, else its parts might be more than 2 GiB apart
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target, use_lmm=has_near_constants() or None)
    engine.add_object_file(llvm.ObjectFileRef.from_data(object_code.code))
    engine.finalize_object()
    address: int = engine.get_function_address(object_code.symbol)
    if not address:
        raise LinkError(f"object code has no function {object_code.symbol}")
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
