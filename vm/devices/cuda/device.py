"""A GPU for one machine."""

from __future__ import annotations

from ...bytecode.executable import ExecutableData
from ...options import RuntimeOptions
from ..device_session import DeviceSession
from .session import Session, reported


def opened(exe: ExecutableData, ordinal: int, options: RuntimeOptions) -> DeviceSession:
    """The session of a machine that runs ``exe`` on the GPU of this number.  Raises ConfigError if the GPU cannot be used."""
    config = exe.config
    early, tf32 = config.get("dependent_launch") == "on", config.get("precision") == "tf32"
    with reported():
        return Session(ordinal, config.get("graphs", "auto"), early, tf32)
