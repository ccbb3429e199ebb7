"""Host cost of a launch on a GPU, without the driver: the machine runs on a driver whose functions do nothing.

200 operators, not fused, each with its allocation; launched one by one, and compared and replayed as a graph.  Needs g++,
no GPU.  The driver's own time comes on top: `make gpu` measures both together.

    python benchmarks/launch_overhead.py [--rounds N]
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from pathlib import Path

import click
import numpy as np

import relayvm as relay
from relayvm.ops.native.jit import nvrtc
from relayvm.vm.devices.cuda import provider
from relayvm.vm.devices.cuda.driver import DRIVER

_OPERATORS, _RUNS = 200, 50
#: The functions that must have an effect.  The other functions return 0 and store a handle at their first argument.
_BODIES = {
    "cuDriverGetVersion": "*(int32_t*)a0 = 13000;",
    "cuDeviceGetCount": "*(int32_t*)a0 = 1;",
    "cuDeviceGetName": 'strcpy((char*)a0, "a driver that does nothing");',
    "cuDeviceGetAttribute": "*(int32_t*)a0 = a1 == 75 ? 9 : a1 == 76 ? 0 : a1 == 97 ? 232448 : 1;",
    "cuMemAllocFromPoolAsync": "*(int64_t*)a0 = (int64_t)aligned_alloc(512, (a1 + 511) / 512 * 512);",
    "cuMemHostAlloc": "*(int64_t*)a0 = (int64_t)aligned_alloc(512, (a1 + 511) / 512 * 512);",
    "cuMemFreeHost": "free((void*)a0);",
    "cuMemFreeAsync": "free((void*)a0);",
    "cuStreamEndCapture": "*(int64_t*)a1 = 1;",
    **dict.fromkeys(
        (
            "cuStreamCreate", "cuEventCreate", "cuMemPoolCreate", "cuDevicePrimaryCtxRetain", "cuModuleLoadData",
            "cuModuleGetFunction", "cuGraphInstantiateWithFlags", "cuDeviceTotalMem",
        ),
        "*(int64_t*)a0 = 1;",
    ),
}  # fmt: skip


class _Idle(provider.CupyProvider):
    """A provider of the driver that does nothing."""

    def __init__(self, folder: Path) -> None:
        functions = [
            f"int {f.symbol}({', '.join(f'int64_t a{i}' for i in range(f.n_args))}) {{ {_BODIES.get(name, '')} return 0; }}"
            for name, f in DRIVER.items()
        ]
        headers = [f"#include <{h}>" for h in ("stdint.h", "stdlib.h", "string.h")]
        (folder / "idle.cpp").write_text("\n".join([*headers, 'extern "C" {', *functions, "}"]))
        command = ["g++", "-O2", "-shared", "-fPIC", "-w", "-o", str(folder / "idle.so"), str(folder / "idle.cpp")]
        subprocess.run(command, check=True)
        self._library = ctypes.CDLL(str(folder / "idle.so"))

    def driver(self) -> ctypes.CDLL:
        return self._library


class _NoCompiler:
    """A compiler for a driver that ignores the code."""

    version = "none"

    def compile(self, text: str, arch: str, options: tuple[str, ...]) -> bytes:
        return b"nothing"


def nanoseconds(graphs: str, rounds: int) -> list[float]:
    """The time per launch of each round."""
    chain = "; ".join(f"let %y{i} = nn.relu(%y{i - 1})" for i in range(1, _OPERATORS + 1))
    text = f'#[version = "0.0.5"]\ndef @main(%x: Tensor[(?), float32]) {{ let %y0 = %x; {chain}; %y{_OPERATORS} }}'
    vm = relay.VirtualMachine(relay.compile(text, target="cuda", graphs=graphs, fuse=False, opt_level=1))
    x = np.ones(8, np.float32)
    for _ in range(3):
        vm.run(x)
    assert vm.counters["launches"] == 3 * _OPERATORS
    taken = []
    for _ in range(rounds):
        start = time.perf_counter_ns()
        for _ in range(_RUNS):
            vm.run(x)
        taken.append((time.perf_counter_ns() - start) / _RUNS / _OPERATORS)
    return taken


@click.command()
@click.option("--rounds", default=15, show_default=True)
def main(rounds: int) -> None:
    """Print nanoseconds per launch, median with min and max."""
    with tempfile.TemporaryDirectory() as folder:
        provider.provider, nvrtc.compiler = _Idle(Path(folder)), _NoCompiler()
        for graphs, what in (("off", "launched one by one"), ("on", "replayed as a graph")):
            taken = nanoseconds(graphs, rounds)
            print(f"{what}: {np.median(taken):.1f} [{min(taken):.1f}..{max(taken):.1f}] ns per launch")


if __name__ == "__main__":
    main()
