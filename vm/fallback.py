"""What takes the place of an implementation that this machine cannot run, and says so.

A library may be missing here, or a kernel fail to compile.  Then the next one in declared order does the work that is right for
every size, and can do in place what is planned so (``Group.in_place``): the plan of memory holds for it too.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

from ..ops.choice import FORCED, fallbacks
from ..ops.implementation import HOST
from ..ops.in_place import kernel_pairs
from ..ops.kernels import kernel_source
from ..ops.native import libraries
from .executable import PackedFunc
from .kernels import in_python, kernel_address
from .source import Diagnostic, VMError

#: What was said already: each operator and reason once per process.
_SAID: set[tuple[str, str]] = set()


def usable(packed: PackedFunc) -> tuple[PackedFunc, int]:
    """A kernel on the host that runs here, and its address (0: it lives in Python): ``packed``, or what takes its place.

    Warns where it is another, once per operator and reason.  Raises VMError where an implementation that was forced does not
    run, and what the last one raises.
    """
    group = packed.group
    if in_python(group) or not group.nodes[0].operator.kernels:
        return packed, kernel_address(group)
    chosen = group.kernel_on(HOST)
    assert chosen is not None, group.name
    planned = [declared for pair in group.in_place for declared in kernel_pairs(group, pair)]
    names = [chosen.name, *(k.name for k in fallbacks(group.call_on(), chosen.name, planned))]
    while True:
        found = replace(packed, group=replace(group, implementation=names[0] if group.implementation else ""))
        try:
            libraries.addresses(kernel_source(found.group).libraries)
            return found, kernel_address(found.group)
        except Exception as error:  # whatever a compiler or a library does
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
    if (op, why) not in _SAID:
        _SAID.add((op, why))
        warnings.warn(f"{op}: its implementation {failed!r} cannot be used: {why}; {taken!r} is", RuntimeWarning, stacklevel=4)


def _why(error: Exception) -> str:
    """The kind of an error and the first line of its text."""
    return f"{type(error).__name__}: {first_line(error)}"


def first_line(error: Exception) -> str:
    """Of an error's text."""
    return str(error).strip().partition("\n")[0]
