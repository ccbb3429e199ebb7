"""A device as one machine uses it: what every device can be asked, with the answers of a device in memory of the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..device_table import CPU
from .request_table import Handler, address_of

if TYPE_CHECKING:
    from ..bytecode.executable import PackedFunc


#: The record of a device that keeps nothing.
NOTHING = np.dtype([("unused", np.int64)])


class DeviceSession:
    """A machine's session on a device.

    ``record``: the fields that the handler of requests works with, at ``address``.  ``state``: the machine's
    STATE record.  A device derives its session from this class and overrides what is different there.
    """

    #: Whether other libraries have arrays on this device.
    takes_arrays = False
    #: The pool of the host's tensors that the device copies to.
    host_pool = CPU
    #: Whether the host can read the device's memory by address.
    is_host_memory = True
    #: ``users`` of a storage of the device; not 0: the device is told the end of every storage's use (END_USE).
    first_users = 0

    def __init__(self, name: str, handler: Handler, layout: np.dtype = NOTHING) -> None:
        self.name, self._handler = name, handler
        self._block = np.zeros(1, layout)
        self.record: Any = self._block[0]
        self.address = self._block.ctypes.data
        self.state: Any = None

    def attach(self, state: Any, address: int) -> None:
        """Attach the machine with this STATE record, at ``address``, to the device."""
        state["device"], state["device_record"] = address_of(self._handler, self.name), self.address
        state["host_pool"], state["first_users"] = self.host_pool, self.first_users
        state["is_host_memory"], state["takes_arrays"] = self.is_host_memory, self.takes_arrays
        self.state = state

    # ---- kernels ---------------------------------------------------------------------------------------------------

    def plans(self, packed: Iterable[PackedFunc]) -> list[int]:
        """The address of the words of each packed function's launches, on a device with kernels of its own."""
        raise NotImplementedError(f"{self.name} launches kernels of the host")

    def copy_to_device(self, address: int, array: np.ndarray) -> None:
        """Copy a host array to the device's memory, after the work enqueued so far."""
        raise NotImplementedError(f"the memory of {self.name} is memory of the host")

    # ---- arrays of other libraries ---------------------------------------------------------------------------------

    def is_here(self, value: Any) -> bool:
        """Whether ``value`` is another library's array on this device."""
        return False

    def borrow(self, value: Any) -> Any:
        """Borrow another library's array on this device, for a call that keeps it."""
        raise NotImplementedError(f"no library has arrays on {self.name}")

    def keep(self, arguments: Any) -> None:
        """Keep the borrowed arrays among the arguments of a call alive until ``release_borrowed``."""

    @property
    def ordinal(self) -> int:
        """The number of the device among those of its kind."""
        return 0

    @property
    def stream(self) -> int:
        """The handle of the stream that other libraries wait for."""
        raise NotImplementedError(f"{self.name} has no stream")

    def export(self, tensor: Any, stream: int | None) -> Any:
        """The owner object for another library that uses a tensor in place."""
        raise NotImplementedError(f"no library reads the memory of {self.name}")

    def make_owners_wait(self) -> None:
        """Make the owners of borrowed arrays wait for all launches so far."""

    def release_borrowed(self) -> None:
        """Drop borrowed arrays, once the host has waited for the work that may read them."""

    # ---- errors ----------------------------------------------------------------------------------------------------

    @property
    def help(self) -> str:
        """The help for an error of the device."""
        return "make a new VirtualMachine"

    @property
    def error(self) -> int:
        """The number of the error that the device has reported; 0: none."""
        return 0

    def describe_error(self, number: int) -> str:
        """The meaning of an error number, in a sentence."""
        return f"{self.name} reports error {number}"

    def memory_text(self) -> str:
        """Describe the use of the device's memory; "" for memory of the host."""
        return ""
