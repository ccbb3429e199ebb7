"""The time in which a core reads memory once: lines of a few streams, added to sums in registers, and nothing else."""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np

#: Streams that are read side by side.  The machine fetches each ahead; how many are fastest depends on the machine.
STREAMS = (1, 2, 3, 4, 6, 8)
LINE = 64
#: Bytes from which a reading is timed alone: the clock and the call take a microsecond or two.
_LEAST = 16 << 20
_VECTOR = "<16 x float>"


def _text(streams: int) -> str:
    """LLVM code: an iteration reads a line of each stream; the sum of all lines is the result, so that no read is dead."""
    numbers = range(streams)
    lines = [
        "define float @read(ptr %p, i64 %bytes) {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
        *(f"  %s{s} = phi {_VECTOR} [ zeroinitializer, %entry ], [ %t{s}, %loop ]" for s in numbers),
        *(f"  %m{s} = mul i64 %bytes, {s}\n  %o{s} = add i64 %i, %m{s}" for s in numbers if s > 0),
        *(f"  %a{s} = getelementptr i8, ptr %p, i64 %{'i' if s == 0 else f'o{s}'}" for s in numbers),
        *(f"  %v{s} = load {_VECTOR}, ptr %a{s}, align {LINE}" for s in numbers),
        *(f"  %t{s} = fadd {_VECTOR} %s{s}, %v{s}" for s in numbers),
        f"  %next = add i64 %i, {LINE}",
        "  %more = icmp ult i64 %next, %bytes",
        "  br i1 %more, label %loop, label %end",
        "end:",
        *(f"  %u{s} = fadd {_VECTOR} %{'t0' if s == 1 else f'u{s - 1}'}, %t{s}" for s in numbers if s > 0),
        *(f"  %e{k} = extractelement {_VECTOR} %{'t0' if streams == 1 else f'u{streams - 1}'}, i32 {k}" for k in range(16)),
        *(f"  %f{k} = fadd float %{'e0' if k == 1 else f'f{k - 1}'}, %e{k}" for k in range(1, 16)),
        "  ret float %f15",
        "}",
    ]
    return "\n".join(lines)


@functools.cache
def _readers() -> tuple[dict[int, Callable[..., float]], list[object]]:
    """The loops as machine code of this machine by the number of streams, and the owners of the code."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features, found, owners = llvm.get_host_cpu_features().flatten(), {}, []
    for streams in STREAMS:
        machine = llvm.Target.from_default_triple().create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_text(streams)), machine)
        engine.finalize_object()
        kind = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_void_p, ctypes.c_int64)
        found[streams] = kind(engine.get_function_address("read"))
        owners.append(engine)
    return found, owners


class Memory:
    """``nbytes`` bytes, in huge pages where the system gives them: what a step reads once."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self._data = np.ones(nbytes // 4 + LINE * max(STREAMS), np.float32)  # numpy asks for huge pages
        self._first = -self._data.ctypes.data % LINE + self._data.ctypes.data

    def seconds(self, repeat: int = 7) -> float:
        """Processor time of reading all bytes once, by the number of streams that is fastest now: the median of readings.

        Memory that fits a cache is read from there, since it was read before.
        """
        readers, _ = _readers()
        return min(self._median(readers[streams], streams, repeat) for streams in STREAMS)

    def _median(self, read: Callable[..., float], streams: int, repeat: int) -> float:
        part, times, passes = -(-self.nbytes // (streams * LINE)) * LINE, [], 1 + _LEAST // self.nbytes
        for _ in range(repeat):
            began = time.process_time()
            for _ in range(passes):
                read(self._first, part)
            times.append((time.process_time() - began) / passes)
        return sorted(times)[repeat // 2]


if __name__ == "__main__":
    for mebibytes in (1, 8, 80):
        taken = Memory(mebibytes << 20).seconds()
        print(f"{mebibytes:4} MiB: {(mebibytes << 20) / taken / 1e9:6.1f} GB/s")
