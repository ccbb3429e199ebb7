"""Devices by Relay's functions.  A device is a text: the name that a target and a machine take."""

from __future__ import annotations

from ...ops.core.implementation import GPU, HOST
from ..diagnostics.argument_errors import a_count, wrong


def cpu(dev_id: int = 0) -> str:
    """The CPU, ``"cpu"``.  Raises ArgumentError for a number other than 0."""
    if a_count(dev_id, "cpu: the number") > 0:
        raise wrong("cpu: the number", "0, for there is one CPU", dev_id)
    return HOST


def cuda(dev_id: int = 0) -> str:
    """A GPU by its number, ``"cuda:1"`` for number 1; whether the GPU exists is asked by the machine.  Raises ArgumentError."""
    number = a_count(dev_id, "cuda: the number")
    return f"{GPU}:{number}" if number else GPU
