"""Whether a GPU multiplies matrices by teams of warps as the code generator expects: asked once of each GPU in a process.

The layout of operands in shared memory is that of the PTX ISA and of published kernels, but it is stated there for fewer cases
than are generated.  A kernel compares each kind of operand with products of single warps, exactly; for a GPU where they differ,
kernels are compiled without teams, and a warning says so.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from ....ops.codegen.cuda.device_code.matrix_instructions import PROOF, PROOF_BYTES, proof
from ....ops.native.jit import nvrtc

if TYPE_CHECKING:
    from .device import Device

#: The only compute capability with teams.
CAPABILITY = 90
_THREADS = 128


def differences(device: Device) -> int:
    """The number of elements for which products by teams and by warps differ.  Raises CudaError."""
    driver = device.driver
    image = nvrtc.cubin(proof(), f"{device.architecture}a", "products of teams")
    held = ctypes.create_string_buffer(image, len(image))
    name = ctypes.create_string_buffer(PROOF.encode())
    with device.as_current():
        module = driver.get("cuModuleLoadData", ctypes.addressof(held))
        function = driver.get("cuModuleGetFunction", module, ctypes.addressof(name))
        stream, found = driver.get("cuStreamCreate", 1), driver.get("cuMemHostAlloc", 8, 0)
        cell = ctypes.c_int64.from_address(found)
        cell.value = -1
        words, size = (ctypes.c_int64 * 1)(found), ctypes.c_size_t(8)
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(words), 2, ctypes.addressof(size), None)
        try:
            grid, block = (1, 1, 1), (_THREADS, 1, 1)
            driver.call("cuLaunchKernel", function, *grid, *block, PROOF_BYTES, stream, 0, ctypes.addressof(extra))
            driver.call("cuStreamSynchronize", stream)
            return cell.value
        finally:
            driver.call("cuMemFreeHost", found)
            driver.call("cuStreamDestroy", stream)
            driver.call("cuModuleUnload", module)
