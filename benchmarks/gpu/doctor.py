"""What is there: card, driver, compiler, libraries; and what the card does at best."""

from __future__ import annotations

from relayvm.ops.native import nvrtc
from relayvm.vm.cuda.device import library_function

from .contest import contest
from .figures import Recorder, Spread
from .plain import Card
from .scale import Scale

#: A property of cuBLAS's own version query: the whole number.
_LIBRARIES = {"cublas": "cublasCreate_v2"}


def measure(record: Recorder, scale: Scale) -> None:
    """Names and versions, the rate of copies on the card, and what a launch takes on an idle one."""
    card = Card(scale.copied_bytes)
    try:
        free, total = card.device.free_bytes()
        version = card.device.driver.get("cuDriverGetVersion")
        record.facts(
            architecture=card.device.architecture,
            memory_bytes=total,
            free_bytes=free,
            driver_cuda=f"{version // 1000}.{version % 1000 // 10}",
        )
        with record.task("NVRTC"):
            record.facts(nvrtc=nvrtc.compiler.version)
        for library, function in _LIBRARIES.items():
            with record.task(library):
                record.facts(**{library: "found" if library_function(library, function) else "not found"})
        copied = contest({"driver": card.copies()}, scale.rounds)["driver"]
        record.figure("copy on the card", "driver", "GB/s", rate(2 * card.nbytes, copied.whole_ns))
        idle = contest({"driver": card.launches()}, 20 * scale.rounds, calls=1)["driver"]
        record.figure("empty kernel, launch to end, idle", "driver, from Python", "µs", idle.whole.per(1000))
        record.figure("empty kernel, launch alone, idle", "driver, from Python", "µs", idle.host.per(1000))
    finally:
        card.close()


def rate(nbytes: int, ns: tuple[float, ...]) -> Spread:
    """Bytes read and written in so many nanoseconds, in GB/s."""
    return Spread.of([nbytes / t for t in ns])
