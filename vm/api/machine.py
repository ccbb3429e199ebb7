"""The virtual machine of the public API: the machine's core with the methods that report on its runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..report.profile_report import Profile
from ..report.profiling import Collector, profile
from .executable import Executable
from .machine_core import MachineCore


class VirtualMachine(MachineCore):
    """Interpreter of an executable.  One thread at a time may use a machine; any number of machines can share an executable.

    ``device``: the executable's target by name, or None.  The name may contain the number of the GPU, from 0: ``cuda:1``.
    ``memory_limit_bytes``: most bytes of storage allocated at a time (None: no limit).  ``stack_limit_bytes``: size of the
    stack, which limits the depth of calls.  ``link_bytes_per_s``: speed of the link to the ``sim`` device (0: that of memory).

    The executable's configuration has ``graphs``, ``bulk`` and ``debug_sync`` (see the compiler's configuration keys).

    Raises ConfigError for a device other than the target and for a GPU that does not exist, ExecutableFormatError for an
    executable that does not verify.
    """

    exe: Executable

    def profile(
        self, *args: Any, repeat: int = 10, warmup: int = 2, collectors: Sequence[Collector] = (), **named: Any
    ) -> Profile:
        """A profile of ``main`` on these arguments: ``warmup`` unmeasured runs, then ``repeat`` measured runs.

        ``collectors`` are user-defined measurements of the timed runs: ``start()`` is called before a run, ``stop()`` after it;
        ``stop`` returns a dict of numbers, which the profile has as ``metrics``.
        """
        return profile(self, args, named, repeat=repeat, warmup=warmup, collectors=collectors)
