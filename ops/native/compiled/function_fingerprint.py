"""Fingerprints of native functions: hashes of everything that determines what a function computes.

The key of the machine code of a function has its fingerprint: code is compiled anew when a text that it is made from changes.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .. import jit
from ..inlining import is_shared
from ..user_function import is_users, numba_settings


def _globals_used(code: types.CodeType) -> Iterator[str]:
    """The names of globals and of attributes that code uses.

    The table of names has both; to tell them apart, each process would read the instructions of all functions.
    """
    yield from code.co_names
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            yield from _globals_used(c)


def fingerprint(function: Callable[..., Any]) -> str:
    """The fingerprint of ``function``, in hexadecimal digits: of its own bytecode and constants, and of those of its callees."""
    digest, seen = hashlib.sha256(), set()
    stack: list[Any] = [function]
    while stack:
        f = stack.pop()
        if id(f) in seen:
            continue
        seen.add(id(f))
        text, names = _own_text(f)
        digest.update(text)
        if is_users(f):
            digest.update(repr(numba_settings()).encode())
        for name in names:
            if name not in f.__globals__:
                continue  # the name of an attribute or a built-in
            value = f.__globals__[name]
            if getattr(value, "__native__", None) in ("function", "generic"):
                digest.update(name.encode())
                stack.append(value)
            elif isinstance(value, types.ModuleType):
                digest.update(repr((name, value.__name__, _module_constants(value, names))).encode())
            else:
                digest.update(repr((name, _stable_value(value))).encode())
    return digest.hexdigest()


#: The attribute in which a function keeps what ``_own_text`` found, beside the objects that this follows from.
_OWN_TEXT = "__own_text__"


def _own_text(f: Any) -> tuple[bytes, list[str]]:
    """The part of a fingerprint that ``f`` itself adds, and the sorted names of globals that it may use.

    The function keeps both, since most kernels call the same functions.
    """
    marks = getattr(f, "__interleaved__", False), is_shared(f), getattr(f, "__apart__", None)
    follows_from = f.__code__, f.__defaults__, f.__doc__, *marks
    kept = f.__dict__.get(_OWN_TEXT)
    if kept is not None and all(map(operator.is_, kept[0], follows_from)):
        return kept[1], kept[2]
    parts = repr((f.__defaults__, *marks)), *map(repr, _code_parts(f.__code__, f.__doc__))
    text, names = "".join(parts).encode(), sorted(set(_globals_used(f.__code__)))
    f.__dict__[_OWN_TEXT] = follows_from, text, names
    return text, names


def _module_constants(module: types.ModuleType, names: list[str]) -> list[tuple[str, Any]]:
    """The constants that code may read as attributes of a module: their values are compiled into the code."""
    found = [(name, vars(module).get(name)) for name in names]
    return [(name, value) for name, value in found if isinstance(value, (int, float, bool, str, tuple))]


def _stable_value(value: Any) -> Any:
    """The part on which code depends of a global value that is no native function; its ``repr`` is the same in every process."""
    kind = getattr(value, "__native__", None)
    if kind == "record":
        return _fields(value.dtype)
    if kind == "array":
        return value.dtype, value.rank, value.stored
    if kind in ("instruction", "static"):  # its file decides what it emits or computes
        return source_hash(value.__module__)
    if hasattr(value, "__c_function__"):
        return value.__c_function__
    if isinstance(value, type) and hasattr(value, "_fields"):
        return value.__name__, value._fields
    if hasattr(value, "__machine__"):  # a machine form in a file that the toolchain's hash does not include
        return source_hash(value.__machine__.__module__)
    if isinstance(value, (int, float, bool, str, tuple)):
        return value
    return getattr(value, "__name__", None)  # of types and of Python's form of a function; None: a built-in or an attribute


@functools.cache
def _fields(dtype: Any) -> str:
    return repr(dtype.descr)


def source_of(module: str) -> bytes:
    """The text of a module of machine forms, and the texts of the modules of ``jit`` that it takes names from."""
    found, todo = {}, [module]
    while todo:
        name = todo.pop()
        found[name] = Path(str(sys.modules[name].__file__)).read_bytes()
        used = {getattr(value, "__module__", None) or "" for value in vars(sys.modules[name]).values()}
        todo += [other for other in used if other.startswith(f"{jit.__name__}.") and other not in found]
    return b"".join(text for _, text in sorted(found.items()))


@functools.cache
def source_hash(module: str) -> str:
    """The SHA-256 of ``source_of``, in hexadecimal digits."""
    return hashlib.sha256(source_of(module)).hexdigest()


def _code_parts(code: types.CodeType, doc: str | None = None) -> Iterator[Any]:
    """Properties of the bytecode; not ``doc``, the docstring, which is the first constant of a function with one."""
    yield code.co_code, code.co_names, code.co_varnames, code.co_argcount
    for i, c in enumerate(code.co_consts):
        if isinstance(c, types.CodeType):
            yield from _code_parts(c)
        elif not (i == 0 and doc is not None and c == doc):
            yield sorted(map(repr, c)) if isinstance(c, frozenset) else c  # the order of a set differs between processes
