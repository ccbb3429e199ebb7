"""The real cuDNN without a GPU: it searches plans for the description of a GPU, and executes none.

The machine describes convolutions to the library with the handle of an open GPU; here the attributes with a handle are replaced
by those with a description of an H100.  A library of stubs stands in for the driver, which the library is linked with.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from relayvm.ops.codegen.cuda.cuda_program import Convolution, Word
from relayvm.vm.devices.cuda.cudnn import plans
from relayvm.vm.devices.cuda.cudnn.layout import PLAN_ROW
from relayvm.vm.devices.cuda.cudnn.library import ConvolutionLibrary
from relayvm.vm.devices.cuda.driver_api.provider import CupyProvider
from relayvm.vm.state.gpu_layout import GPU

#: Functions of the driver that the library is linked with.
_STUBS = (
    *("cuGetErrorString", "cuModuleGetFunction", "cuModuleLoadData", "cuModuleUnload"),
    *("cuTensorMapEncodeIm2col", "cuTensorMapEncodeTiled"),
)
#: An H100, as the library describes a GPU.
_H100 = {
    "maxGridSize": [2**31 - 1, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "warpSize": 32,
    "multiProcessorCount": 132, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "memoryBusWidth": 5120,
    "l2CacheSize": 52428800, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
    "reservedSharedMemoryPerBlock": 1024, "oversizedSharedMemoryPerBlock": 0, "maxRegistersPerSM": 65536, "pciDeviceId": 0,
    "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "isTccDriver": 0, "supportCoopLaunch": 1,
    "deviceVer": 900, "driverVer": 13000, "cudaDeviceId": 0, "totalGlobalMem": 80 << 30, "deviceName": "H100",
}  # fmt: skip
#: Kinds of descriptors and attributes of cudnn_graph.h that the machine does not use.
_DEVICE, _DEVICE_TEXT, _CHAR = 38, 2702, 24
_HEURISTICS, _PLAN, _GRAPH, _ENGINE = 4, 5, 15, 2
_DEVICE_OF = {_HEURISTICS: 204, _PLAN: 407}
_HANDLE, _DESCRIPTOR, _INT64 = 0, 15, 3
_WORKSPACE_BYTES = 32 << 20


class RealCudnn:
    """The library, as the machine calls it: ``failures`` are its answers but success, ``live`` its descriptors."""

    def __init__(self, folder: Path) -> None:
        source, stubs = folder / "stubs.c", folder / "libcuda.so.1"
        source.write_text("\n".join(f"int {name}() {{ return 100; }}" for name in _STUBS))
        subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", stubs, source], check=True)
        ctypes.CDLL(str(stubs), ctypes.RTLD_GLOBAL)
        self.library = CupyProvider().library("cudnn")
        self.failures: list[tuple[str, int]] = []
        self.live: dict[int, int] = {}
        self._kept: list[Any] = []
        self._functions: dict[str, int] = {
            "cudnnGetVersion": ctypes.cast(self.library.cudnnGetVersion, ctypes.c_void_p).value or 0,
            "cudnnCreate": self._address(1, self._open),
            "cudnnBackendCreateDescriptor": self._address(2, self._create),
            "cudnnBackendDestroyDescriptor": self._address(1, self._destroy),
            "cudnnBackendSetAttribute": self._address(5, self._set),
            **{name: self._address(n, self._plainly(name)) for name, n in (("Finalize", 1), ("GetAttribute", 6))},
            **{name: self._address(n, lambda *args: 0) for name, n in (("cudnnSetStream", 2), ("cudnnBackendExecute", 3))},
        }
        self.device = self._new(_DEVICE)
        text = json.dumps(_H100).encode()
        chars = ctypes.create_string_buffer(text)
        self.call("SetAttribute", self.device, _DEVICE_TEXT, _CHAR, len(text), ctypes.addressof(chars))
        self.call("Finalize", self.device)
        self._gpu = np.zeros(1, GPU)
        self.machine = ConvolutionLibrary(self._find, 1, 1 << 20, _WORKSPACE_BYTES, lambda finalizer: None)
        self._gpu["convolutions"] = self.machine.address

    def _find(self, name: str) -> int:
        return self._functions.get(name) or self._functions[name.removeprefix("cudnnBackend")]

    def _address(self, n: int, function: Callable[..., int]) -> int:
        self._kept.append(ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * n)(function))
        return ctypes.cast(self._kept[-1], ctypes.c_void_p).value or 0

    def call(self, name: str, *args: int) -> int:
        """Call a function of the backend; its status."""
        status = int(getattr(self.library, f"cudnnBackend{name}")(*map(ctypes.c_int64, args)))
        if status:
            self.failures.append((name, status))
        return status

    def _plainly(self, name: str) -> Callable[..., int]:
        return lambda *args: self.call(name, *args)

    def _open(self, out: int) -> int:
        ctypes.c_int64.from_address(out).value = 1
        return 0

    def _new(self, kind: int) -> int:
        cell = ctypes.c_int64()
        assert self.call("CreateDescriptor", kind, ctypes.addressof(cell)) == 0
        return cell.value

    def _create(self, kind: int, out: int) -> int:
        made = ctypes.c_int64.from_address(out).value = self._new(kind)
        self.live[made] = kind
        return self._set_device(made) if kind == _HEURISTICS else 0

    def _destroy(self, thing: int) -> int:
        del self.live[thing]
        return self.call("DestroyDescriptor", thing)

    def _set(self, thing: int, attribute: int, type: int, n: int, values: int) -> int:
        if type == _HANDLE:
            return self._set_device(thing) if self.live[thing] == _PLAN else 0
        return self.call("SetAttribute", thing, attribute, type, n, values)

    def _set_device(self, thing: int) -> int:
        cell = ctypes.c_int64(self.device)
        return self.call("SetAttribute", thing, _DEVICE_OF[self.live[thing]], _DESCRIPTOR, 1, ctypes.addressof(cell))

    def numbers(self, thing: int, attribute: int, type: int, most: int = 32) -> list[int]:
        """At most 32 elements of an attribute of integers."""
        found, n = (ctypes.c_int64 if type == _INT64 else ctypes.c_int32) * 32, ctypes.c_int64()
        values = found()
        assert self.call("GetAttribute", thing, attribute, type, most, ctypes.addressof(n), ctypes.addressof(values)) == 0
        return list(values)[: n.value]

    def plan(self, sizes: list[int], convolution: Convolution, alignment: int = 16) -> dict[str, Any] | None:
        """The plan of the machine for a convolution: its notes and workspace; None: it has none."""
        row = np.zeros(1, PLAN_ROW)
        row["convolution"], row["alignment"], row["sizes"][0] = self.machine.convolution(convolution), alignment, sizes
        plans.make_plan(self._gpu.ctypes.data, row.ctypes.data)
        if not int(row["plan"][0]):
            return None
        engine = self._new(_ENGINE)
        cell, n = ctypes.c_int64(engine), ctypes.c_int64()
        of = int(row["configuration"][0]), 300, _DESCRIPTOR, 1, ctypes.addressof(n), ctypes.addressof(cell)
        assert self.call("GetAttribute", *of) == 0
        answer = {
            "numerical": self.numbers(engine, 1303, 11),
            "behavior": self.numbers(engine, 1305, 19),
            "workspace": self.numbers(int(row["plan"][0]), 402, _INT64, 1)[0],
        }
        self.call("DestroyDescriptor", engine)
        plans.destroy_plan(self._gpu.ctypes.data, row.ctypes.data)
        return answer

    def pack(self) -> None:
        """Make a pack of addresses and destroy it."""
        made = plans.new_pack(self._gpu.ctypes.data, 4096, 8192, 16384)
        assert made
        plans.destroy(self._gpu.ctypes.data, made)


def step(
    axes: int, dtype: int, stride: int, dilation: int, before: int, channels_last: bool, is_transposed: bool = False
) -> Convolution:
    """A convolution with the same numbers along each axis; a single axis is the last of two."""
    given = axes if axes > 1 else 1
    stride_, dilation_ = ((1,) * (3 - given) + (n,) * given for n in (stride, dilation))
    numbers: Any = stride_, dilation_, (0,) * (3 - given) + (before,) * given
    compute = dtype if dtype == 1 else 0
    return Convolution(
        *(Word(0),) * 3, (), max(axes, 2), *numbers, channels_last, (dtype, dtype), compute, is_transposed=is_transposed
    )
