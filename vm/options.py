"""Options of a virtual machine and the environment variables of the runtime, read here and nowhere else in ``vm``."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Any

from ..declarations.frozen_dataclass import frozen

#: Environment variable with the number of threads of kernels.
THREADS_VARIABLE = "RELAYVM_NUM_THREADS"
#: OpenMP's variable, for a process that has no variable of relayvm's own: other libraries, whose times are compared, read it.
OPENMP_VARIABLE = "OMP_NUM_THREADS"
#: Environment variable that enables all checks: of each pass's result, and of the launches of this process's own executables.
CHECK_VARIABLE = "RELAYVM_CHECK"
#: Environment variable that enables poisoning (see ``runtime.poison``).
POISON_VARIABLE = "RELAYVM_POISON"


@frozen
class Environment:
    """The environment variables of the runtime.

    ``num_threads``, ``openmp_threads``: the texts of the variables, None without them.  ``checks``: whether all checks are
    enabled.  ``poison``: whether dead memory is poisoned.
    """

    num_threads: str | None
    openmp_threads: str | None
    checks: bool
    poison: bool

    @staticmethod
    def read() -> Environment:
        """The variables as they are now."""
        of = os.environ.get
        threads = of(THREADS_VARIABLE), of(OPENMP_VARIABLE)
        return Environment(*threads, of(CHECK_VARIABLE, "0") not in ("", "0"), of(POISON_VARIABLE, "0") != "0")


@frozen
class RuntimeOptions:
    """The arguments of a ``VirtualMachine`` besides its executable; see there for their meaning."""

    device: str | None
    memory_limit_bytes: int | None
    stack_limit_bytes: int
    link_bytes_per_s: int
    link_latency_ns: int

    def arguments(self) -> dict[str, Any]:
        """The options as keyword arguments of ``VirtualMachine``."""
        return asdict(self)
