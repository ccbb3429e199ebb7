"""Context of the passes over one module: facts that hold from the first pass to the executable."""

from __future__ import annotations

from ...declarations.frozen_dataclass import frozen
from ...ops.core.implementation import HOST


@frozen
class LoweringContext:
    """The facts that decide how a module is lowered, apart from its functions and the enabled passes.

    ``target``: the device of the executable.  ``data_dependence``: the inputs of an operator whose data a shape function gets
    (see ``host_reads``).  ``entries``: the functions that a user may call; the user holds their arguments.
    """

    target: str = HOST
    data_dependence: str = "input"
    entries: tuple[str, ...] = ("main",)
