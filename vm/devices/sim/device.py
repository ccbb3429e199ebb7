"""The simulated device for one machine."""

from __future__ import annotations

from ...bytecode.executable import ExecutableData
from ...options import RuntimeOptions
from ..device_session import DeviceSession
from .device_queue import SIM
from .simulated_device import serve

#: Number of bytes per second, or of ns, that stands for no limit; sums with it fit int64.
_NO_LIMIT = 1 << 62


class SimulatedSession(DeviceSession):
    """A machine's session on the simulated device, behind a link of the speed that the machine's options give."""

    first_users = 1  # dead memory is poisoned

    def __init__(self, options: RuntimeOptions) -> None:
        super().__init__("sim", serve, SIM)
        self.record["link_bytes_per_s"] = min(options.link_bytes_per_s, _NO_LIMIT)
        self.record["link_latency_ns"] = min(options.link_latency_ns, _NO_LIMIT)


def opened(exe: ExecutableData, ordinal: int, options: RuntimeOptions) -> DeviceSession:
    """The session of a machine that runs ``exe``."""
    return SimulatedSession(options)
