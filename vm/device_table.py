"""The devices: a row for each.  The numbers of instructions and of tensors are the positions of the rows.

A device other than the CPU has a folder of its name in ``devices``.  Its module ``device`` has a function ``opened``, which opens
the device for one machine (``devices.device_session``).  The folder fills a table of requests (``devices.request_table``).
"""

from __future__ import annotations

from ..declarations.frozen_dataclass import frozen
from ..ops.core.implementation import GPU, HOST


@frozen
class Device:
    """A device by its name.

    ``machine``: HOST or GPU, whose kernels the device launches.  ``dlpack``: DLPack's number of the kind of device whose memory
    it uses; 1: memory of the host, which the host can read by address.  ``has_numbers``: whether there may be several, named
    ``name:0``, ``name:1``.  ``has_link``: whether the speed of copies is an option of a machine.
    """

    name: str
    machine: str = HOST
    dlpack: int = 1
    has_numbers: bool = False
    has_link: bool = False

    @property
    def is_host_memory(self) -> bool:
        """Whether the host can access the device's memory by address."""
        return self.dlpack == 1


#: All devices, by number.  Number 0 is the host.
DEVICE_TABLE = (
    Device(HOST),
    Device("sim", has_link=True),
    Device(GPU, GPU, dlpack=2, has_numbers=True),
)
#: The names of the devices, by number.
DEVICES = tuple(row.name for row in DEVICE_TABLE)
#: The number of the host.
CPU = 0
#: The device behind a link whose speed is an option.
LINKED = next(row.name for row in DEVICE_TABLE if row.has_link)


def machine_of(name: str) -> str:
    """HOST or GPU: the machine whose kernels the device of this name launches."""
    return DEVICE_TABLE[DEVICES.index(name)].machine
