"""Kernels of an executable: from their description to an address, through the kernel store."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from ....ops.codegen import kernel_source
from ....ops.codegen.cpu.kernel_source import KernelSource
from ....ops.codegen.cpu.shared_texts.without_literals import without_literals
from ....ops.core.group import Group
from ....ops.core.implementation import HOST
from ....ops.native import memory
from ....ops.native.cache.cache_key import CacheKey
from ....ops.native.compiled import kernel_store
from ....ops.native.compiled.function_fingerprint import fingerprint
from ....ops.native.generated_source import KERNEL, define
from ....ops.native.given_literals import given_float, given_integer, given_size
from ....ops.native.halves import scalar_types
from ....ops.native.jit.native_compiler import OPTIMIZED, Levels, kernel_levels
from ....ops.native.memory import native
from ....ops.native.user_function import UserFunctionError, is_users
from ...diagnostics import codes
from ...diagnostics.python_source import line_of
from ...diagnostics.source import ArgumentError

SIGNATURE = "int32(int64, int64)"

#: Names available to the source of a kernel, besides the bodies it calls.
_NAMES: dict[str, Any] = {
    "math": math,
    "generic": memory.generic,
    **{name: value for name, value in vars(memory).items() if hasattr(value, "__native__")},
    **scalar_types(),
    **{function.__name__: function for function in (given_float, given_integer, given_size)},
}


def kernel_function(source: KernelSource) -> Callable[[int, int], int]:
    """The kernel as a plain Python function, which runs un-jitted too."""
    namespace = {**_NAMES, **{body.__name__: body for body in source.bodies}}
    define(KERNEL, source.text, namespace)
    entry: Callable[[int, int], int] = native(namespace[source.entry])
    return entry


def kernel_key(source: KernelSource, levels: Levels = OPTIMIZED) -> CacheKey:
    """The key of a kernel's machine code: its text and the code of its bodies.

    Python compiles the text of a kernel only where the store lacks the kernel: that takes longer than to find the kernel.
    """
    digest = _digest(source) if any(map(is_users, source.bodies)) else _own_digest(source)
    return kernel_store.source_key(digest, SIGNATURE, levels)


def _digest(source: KernelSource) -> str:
    digest = hashlib.sha256(repr((source.text, source.entry)).encode())
    for body in source.bodies:
        digest.update(repr((body.__name__, body._fields if hasattr(body, "_fields") else _fingerprint_of(body))).encode())
    return digest.hexdigest()


@functools.lru_cache(maxsize=512)
def _own_digest(source: KernelSource) -> str:
    """The digest of a kernel that calls functions of this package only: a program asks to store it, and to load it."""
    return _digest(source)


def _fingerprint_of(body: Callable[..., Any]) -> str:
    """The fingerprint of a body: of this package's, which do not change, found once."""
    return fingerprint(body) if is_users(body) else _own_fingerprint(body)


@functools.cache
def _own_fingerprint(body: Callable[..., Any]) -> str:
    return fingerprint(body)


def kernel_address(group: Group, levels: Levels | None = None) -> int:
    """The address of a group's machine code; 0 for a kernel in Python.  Raises ArgumentError for a user's kernel.

    ``levels``: LLVM's levels of optimization, by default ``kernel_levels()``.
    """
    if in_python(group):
        return 0
    source, levels = kernel_source(group), levels or kernel_levels()
    key = kernel_key(source, levels)
    try:
        return kernel_store.address_at(
            key, group.name, lambda: kernel_function(source), SIGNATURE, levels, lambda: _shared(source, levels)
        )
    except UserFunctionError as error:
        op, span = group.main.op, line_of(error.filename, error.line)
        raise ArgumentError(f"{op}: {error}", span, help=error.help, code=codes.Argument.KERNEL) from error


def missing_objects(groups: Iterable[Group]) -> int:
    """The number of objects that LLVM has to compile for these groups: kernels that differ in literals are one."""
    levels, keys = kernel_levels(), dict[str, CacheKey]()
    for source in (kernel_source(group) for group in groups if not in_python(group)):
        key = kernel_key(source, levels)
        if not kernel_store.is_stored(key):
            shared = _shared(source, levels)
            key = key if shared is None else shared.key
            keys[key.id] = key
    return sum(not kernel_store.is_stored(key) for key in keys.values())


def obtain_parts(group: Group) -> None:
    """Store the parts of a group's machine code, as its kernel links them; none for a kernel in Python."""
    if not in_python(group):
        source = kernel_source(group)
        shared = _shared(source, OPTIMIZED)
        kernel_store.obtain_parts(kernel_function(source) if shared is None else shared.define(), SIGNATURE)


def obtain_shared(group: Group) -> None:
    """Store a group's machine code without its literals, or as it is if it has none; nothing for a kernel in Python."""
    shared = None if in_python(group) else _shared(kernel_source(group), OPTIMIZED)
    if shared is None:
        kernel_address(group, OPTIMIZED)
    else:
        kernel_store.obtain_shared(shared, SIGNATURE)


def _shared(source: KernelSource, levels: Levels) -> kernel_store.Shared | None:
    """The kernel without its literals; None for a kernel without literals."""
    text, literals = without_literals(source.text, source.bodies)
    if not literals:
        return None
    shared = replace(source, text=text)
    return kernel_store.Shared(kernel_key(shared, levels), lambda: kernel_function(shared), literals)


def group_key(group: Group) -> CacheKey | None:
    """The key of a group's machine code; None for a kernel in Python."""
    return None if in_python(group) else kernel_key(kernel_source(group), kernel_levels())


def in_python(group: Group) -> bool:
    """Whether the group's kernel on the host is in Python."""
    kernel = group.kernel_on(HOST)
    return kernel is not None and kernel.in_python


def libraries_of(group: Group) -> tuple[str, ...]:
    """The library functions that a group's kernel on the host calls: only kernels written by hand call any."""
    kernel = group.kernel_on(HOST)
    return () if kernel is None or kernel.in_python else kernel_source(group).libraries
