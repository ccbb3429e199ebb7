"""Fallback from an implementation that this machine cannot run to the next one, with a warning.

A library may be missing here, or a kernel fail to compile.  The next implementation in declared order is used that is correct for
every size and supports the planned in-place reuse (``Group.in_place``): the memory plan stays valid.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

from ....ops.analysis.aliasing import in_place_pairs, kernel_pairs
from ....ops.codegen import kernel_source
from ....ops.core.implementation import HOST
from ....ops.native.blas import library_calls
from ....ops.strategy.choice import FORCED, fallbacks
from ...bytecode.executable import PackedFunc
from ...diagnostics.source import Diagnostic, VMError
from .kernel_addresses import in_python, kernel_address

#: Reported fallbacks: each operator and reason once per process.
_REPORTED: set[tuple[str, str]] = set()


def usable(packed: PackedFunc) -> tuple[PackedFunc, int]:
    """A usable kernel on the host, ``packed`` or its fallback, and its address (0: a kernel in Python).

    Warns of a fallback, once per operator and reason.  Raises VMError if an implementation was forced and is not usable, and the
    exception of the last fallback.
    """
    group = packed.group
    if in_python(group) or not group.nodes[0].operator.kernels:
        return packed, kernel_address(group)
    chosen = group.kernel_on(HOST)
    assert chosen is not None, group.name
    planned = [declared for pair in group.in_place for declared in kernel_pairs(group, pair)]
    others = [replace(group, implementation=k.name) for k in fallbacks(group.call_on(), chosen.name, planned)]
    # of an epilogue's operands the operator declares no pairs
    names = [chosen.name, *(g.implementation for g in others if set(group.in_place) <= set(in_place_pairs(g)))]
    while True:
        found = replace(packed, group=replace(group, implementation=names[0] if group.implementation else ""))
        try:
            library_calls.addresses(kernel_source(found.group).libraries)
            return found, kernel_address(found.group)
        except Exception as error:  # any exception of a compiler or a library
            if packed.because == FORCED:
                op, why = group.nodes[0].op, f"{type(error).__name__}: {error}"
                raise VMError(
                    Diagnostic(f"{op}: its implementation {names[0]!r}, which is forced, cannot be used: {why}")
                ) from error
            if len(names) == 1:
                raise
            _say(group.nodes[0].op, names[0], names[1], error)
            names.pop(0)


def _say(op: str, failed: str, taken: str, error: Exception) -> None:
    why = _why(error)
    if (op, why) not in _REPORTED:
        _REPORTED.add((op, why))
        warnings.warn(f"{op}: its implementation {failed!r} cannot be used: {why}; {taken!r} is", RuntimeWarning, stacklevel=4)


def _why(error: Exception) -> str:
    """The kind of an error and the first line of its text."""
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: Exception) -> str:
    """The first line of an error's text."""
    return str(error).strip().partition("\n")[0]
