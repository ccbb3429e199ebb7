"""The machine: GPU, driver, compiler, libraries; and the best rates of the GPU."""

from __future__ import annotations

import functools

from relayvm.ops.codegen.cuda.device_code import nvrtc
from relayvm.vm.devices.cuda.cudnn.library import version
from relayvm.vm.devices.cuda.driver_api.device import library_function
from relayvm.vm.devices.cuda.driver_api.driver import NoCuda

from ..contest import contest
from ..figures import Recorder, Spread
from ..plain import Gpu
from ..scale import Scale

#: A function of each library.
_LIBRARIES = {"cublas": "cublasCreate_v2"}


def measure(record: Recorder, scale: Scale) -> None:
    """Names and versions, the rate of copies on the GPU, and what a launch takes on an idle one."""
    gpu = Gpu(scale.copied_bytes)
    try:
        free, total = gpu.device.free_bytes()
        driver = gpu.device.driver.get("cuDriverGetVersion")
        record.facts(
            architecture=gpu.device.architecture,
            memory_bytes=total,
            free_bytes=free,
            driver_cuda=f"{driver // 1000}.{driver % 1000 // 10}",
        )
        with record.task("NVRTC"):
            record.facts(nvrtc=nvrtc.compiler.version)
        for library, function in _LIBRARIES.items():
            with record.task(library):
                record.facts(**{library: "found" if library_function(library, function) else "not found"})
        try:
            record.facts(cudnn=version(functools.partial(library_function, "cudnn")))
        except NoCuda as error:  # convolutions take another implementation
            record.facts(cudnn=str(error))
        copied = contest({"driver": gpu.copies()}, scale.rounds)["driver"]
        record.figure("copy on the GPU", "driver", "GB/s", rate(2 * gpu.nbytes, copied.whole_ns))
        idle = contest({"driver": gpu.launches()}, 20 * scale.rounds, calls=1)["driver"]
        record.figure("empty kernel, launch to end, idle", "driver, from Python", "µs", idle.whole.per(1000))
        record.figure("empty kernel, launch alone, idle", "driver, from Python", "µs", idle.host.per(1000))
    finally:
        gpu.close()


def rate(nbytes: int, ns: tuple[float, ...]) -> Spread:
    """Bytes read and written in so many nanoseconds, in GB/s."""
    return Spread.of([nbytes / t for t in ns])
