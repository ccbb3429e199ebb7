"""The functions of the CUDA driver in use, declared once: symbol, index in the table, number of arguments.

Machine code finds an address in the *driver table*, which the state points at.  All arguments are passed as 64-bit words:
pointers, handles and integers (narrower ones are taken from the low bits), never floating-point numbers by value.
"""

from __future__ import annotations

import ctypes
import sys

from .....declarations.frozen_dataclass import frozen


@frozen
class DriverFunction:
    """A driver function: ``symbol`` as libcuda exports it; ``index`` in the driver table."""

    index: int
    symbol: str
    n_args: int


_SIGNATURES = """
cuInit(flags)
cuDriverGetVersion(out)
cuGetErrorName(error, out)
cuGetErrorString(error, out)
cuDeviceGetCount(out)
cuDeviceGet(out, ordinal)
cuDeviceGetName(chars, length, device)
cuDeviceGetAttribute(out, attribute, device)
cuDeviceTotalMem_v2(out, device)
cuDevicePrimaryCtxRetain(out, device)
cuDevicePrimaryCtxRelease_v2(device)
cuCtxSetCurrent(context)
cuCtxGetCurrent(out)
cuCtxSynchronize()
cuMemGetInfo_v2(free, total)
cuStreamCreate(out, flags)
cuStreamDestroy_v2(stream)
cuStreamSynchronize(stream)
cuStreamQuery(stream)
cuStreamWaitEvent(stream, event, flags)
cuStreamIsCapturing(stream, out)
cuThreadExchangeStreamCaptureMode(mode)
cuStreamBeginCapture_v2(stream, mode)
cuStreamEndCapture(stream, out_graph)
cuStreamGetCaptureInfo_v2(stream, out_status, out_id, out_graph, out_nodes, out_n_nodes)
cuEventCreate(out, flags)
cuEventDestroy_v2(event)
cuEventRecord(event, stream)
cuEventSynchronize(event)
cuEventElapsedTime(out_float_ms, start, end)
cuMemPoolCreate(out, properties)
cuMemPoolDestroy(pool)
cuMemPoolSetAttribute(pool, attribute, value)
cuMemPoolTrimTo(pool, min_bytes)
cuMemAllocFromPoolAsync(out, nbytes, pool, stream)
cuMemFreeAsync(address, stream)
cuMemHostAlloc(out, nbytes, flags)
cuMemFreeHost(address)
cuMemcpyDtoHAsync_v2(to, source, nbytes, stream)
cuMemcpyHtoDAsync_v2(to, source, nbytes, stream)
cuMemcpyDtoDAsync_v2(to, source, nbytes, stream)
cuMemsetD8Async(address, byte, nbytes, stream)
cuModuleLoadData(out, image)
cuModuleUnload(module)
cuModuleGetFunction(out, module, name)
cuFuncSetAttribute(function, attribute, value)
cuLaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, params, extra)
cuLaunchKernelEx(config, function, params, extra)
cuGraphInstantiateWithFlags(out, graph, flags)
cuGraphLaunch(graph_exec, stream)
cuGraphExecKernelNodeSetParams_v2(graph_exec, node, params)
cuGraphExecDestroy(graph_exec)
cuGraphDestroy(graph)
"""


def _declared() -> dict[str, DriverFunction]:
    found = {}
    for index, line in enumerate(_SIGNATURES.split("\n")[1:-1]):
        symbol, _, parameters = line.rstrip(")").partition("(")
        found[symbol.partition("_v")[0]] = DriverFunction(index, symbol, len(parameters.split(", ")) if parameters else 0)
    return found


#: Every function by its name without the version that the symbol carries.
DRIVER: dict[str, DriverFunction] = _declared()


class NoCuda(Exception):
    """No CUDA device is available; the text is the reason, in one line."""


def load_library(path: str | None = None) -> ctypes.CDLL:
    """The driver's library: ``path``, else the system's.  Raises NoCuda."""
    name = path or ("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise NoCuda(f"no CUDA driver: {name} cannot be loaded ({error})") from None


def addresses(library: ctypes.CDLL) -> list[int]:
    """The driver table.  Raises NoCuda for a driver that lacks a function: it is older than CUDA 12."""
    table = []
    for function in DRIVER.values():
        try:
            table.append(ctypes.cast(getattr(library, function.symbol), ctypes.c_void_p).value or 0)
        except AttributeError:
            raise NoCuda(f"the CUDA driver is too old: it has no {function.symbol}; CUDA 12 or newer is needed") from None
    return table
