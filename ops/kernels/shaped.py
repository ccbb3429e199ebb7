"""A tensor of any rank as an argument of a kernel's body."""

from __future__ import annotations

from typing import NamedTuple

from ..native.memory import Array, Axes


class Shaped(NamedTuple):
    """The elements of a tensor along one axis, and its sizes: the view "dims" of ``core.implementation.Kernel``."""

    data: Array
    dims: Axes
