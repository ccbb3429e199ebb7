"""The end of a run's work on its device, for measurements."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..machine.machine_core import MachineCore


def finish(machine: MachineCore) -> None:
    """Synchronise with the device, without a copy.  Raises VMError if a queued kernel fails.

    A run returns before the device has finished; its measured time must include the queued work.
    """
    machine._exclusively(functools.partial(machine._wait, None))  # not counted: the wait is part of the measurement
