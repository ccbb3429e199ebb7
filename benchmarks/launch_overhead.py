"""Host cost of an operator on a GPU, without the driver: the machine runs on a driver and libraries whose functions do nothing.

200 operators, not fused, each with its allocation; launched one by one, and compared and replayed as a graph.  Besides
elementwise operators, products through the table of cuBLASLt and through cuBLAS, and convolutions by such products and through
the table of cuDNN.  In the cases of new sizes each launch has other sizes than the launch before, so its programs over sizes run.
Then calls of one operator, whose arguments are on the GPU or numpy arrays.  All take turns.
Needs g++, no GPU.  The driver's own time comes on top: `make gpu` measures both together.

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
from relayvm.ops.codegen.cuda.device_code import nvrtc
from relayvm.vm.devices.cuda.driver_api import provider
from relayvm.vm.devices.cuda.driver_api.driver import DRIVER

_OPERATORS, _RUNS = 200, 50
#: Calls of one operator: numbers of arguments, kinds of arguments.
_ARGUMENTS = 1, 2, 5
_PLACED, _ARRAYS = "tensors on the GPU", "numpy arrays"
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
    "cublasLtMatmulAlgoGetHeuristic": "memset((void*)a8, 0, 96); *(int32_t*)a9 = 1;",
    "cudnnGetVersion": "return 92801;",
    "cudnnBackendCreateDescriptor": "*(int64_t*)a1 = 1;",
    # one result of the heuristics, no workspace
    "cudnnBackendGetAttribute": "*(int64_t*)a4 = a1 == 202 || a1 == 402; if (a1 == 402) *(int64_t*)a5 = 0;",
    **dict.fromkeys(
        (
            "cuStreamCreate", "cuEventCreate", "cuMemPoolCreate", "cuDevicePrimaryCtxRetain", "cuModuleLoadData",
            "cuModuleGetFunction", "cuGraphInstantiateWithFlags", "cuDeviceTotalMem", "cublasCreate_v2", "cublasLtCreate",
            "cublasLtMatmulDescCreate", "cublasLtMatrixLayoutCreate", "cublasLtMatmulPreferenceCreate",
            "cudnnCreate",
        ),
        "*(int64_t*)a0 = 1;",
    ),
}  # fmt: skip


#: The functions of the libraries, with the number of their arguments.
_LIBRARIES = {
    "cublasCreate_v2": 1, "cublasDestroy_v2": 1, "cublasSetStream_v2": 2, "cublasSetMathMode": 2, "cublasSetWorkspace_v2": 3,
    "cublasGemmStridedBatchedEx": 23, "cublasLtCreate": 1, "cublasLtDestroy": 1, "cublasLtMatmul": 16,
    "cublasLtMatmulDescCreate": 3, "cublasLtMatmulDescDestroy": 1, "cublasLtMatmulDescSetAttribute": 4,
    "cublasLtMatrixLayoutCreate": 5, "cublasLtMatrixLayoutDestroy": 1, "cublasLtMatrixLayoutSetAttribute": 4,
    "cublasLtMatmulPreferenceCreate": 1, "cublasLtMatmulPreferenceDestroy": 1, "cublasLtMatmulPreferenceSetAttribute": 4,
    "cublasLtMatmulAlgoGetHeuristic": 10, "cudnnGetVersion": 0, "cudnnCreate": 1, "cudnnDestroy": 1, "cudnnSetStream": 2,
    "cudnnBackendCreateDescriptor": 2, "cudnnBackendDestroyDescriptor": 1, "cudnnBackendFinalize": 1,
    "cudnnBackendSetAttribute": 5, "cudnnBackendGetAttribute": 6, "cudnnBackendExecute": 3,
}  # fmt: skip


class _Idle(provider.CupyProvider):
    """A provider of the driver and the libraries that do nothing."""

    def __init__(self, folder: Path) -> None:
        declared = [(name, f.symbol, f.n_args) for name, f in DRIVER.items()]
        declared += [(name, name, n) for name, n in _LIBRARIES.items()]
        functions = [
            f"int {symbol}({', '.join(f'int64_t a{i}' for i in range(n))}) {{ {_BODIES.get(name, '')} return 0; }}"
            for name, symbol, n in declared
        ]
        headers = [f"#include <{h}>" for h in ("stdint.h", "stdlib.h", "string.h")]
        (folder / "idle.cpp").write_text("\n".join([*headers, 'extern "C" {', *functions, "}"]))
        command = ["g++", "-O2", "-shared", "-fPIC", "-w", "-o", str(folder / "idle.so"), str(folder / "idle.cpp")]
        subprocess.run(command, check=True)
        self._library = ctypes.CDLL(str(folder / "idle.so"))

    def driver(self) -> ctypes.CDLL:
        return self._library

    def library(self, name: str) -> ctypes.CDLL:
        return self._library


class _NoCompiler:
    """A compiler for a driver that ignores the code."""

    version = "none"

    def compile(self, text: str, arch: str, options: tuple[str, ...]) -> bytes:
        return b"nothing"


#: A convolution that narrows the picture; the sizes of its kernel are known.
_NEW_SIZES = "convolution 1x3 by products, new sizes", "convolution 1x3 by cuDNN, new sizes"
_BY_PRODUCTS = {"impl.nn.conv2d": "convolution"}
#: Contestants: an operator on ``%y``, the shape of ``%y``, the shape of a second argument ``%w``, configuration.
_CASES: dict[str, tuple[str, tuple[int, ...], tuple[int, ...], dict[str, str]]] = {
    "elementwise": ("nn.relu(%y)", (8,), (), {}),
    "elementwise, dependent_launch=on": ("nn.relu(%y)", (8,), (), {"dependent_launch": "on"}),
    "product by cuBLASLt": ("nn.dense(%y, %w)", (8, 8), (8, 8), {}),
    "product by cuBLAS": ("nn.dense(%y, %w)", (8, 8), (8, 8), {"impl.nn.dense": "gemm"}),
    "convolution 1x1 by a product": ("nn.conv2d(%y, %w)", (1, 8, 4, 4), (8, 8, 1, 1), _BY_PRODUCTS),
    "convolution 3x3 by products": ("nn.conv2d(%y, %w, padding=[1, 1])", (1, 8, 4, 4), (8, 8, 3, 3), _BY_PRODUCTS),
    "convolution 3x3 by cuDNN": ("nn.conv2d(%y, %w, padding=[1, 1])", (1, 8, 4, 4), (8, 8, 3, 3), {}),
    _NEW_SIZES[0]: ("nn.conv2d(%y, %w)", (1, 8, 1, 2 * _OPERATORS + 1), (8, 8, 1, 3), _BY_PRODUCTS),
    _NEW_SIZES[1]: ("nn.conv2d(%y, %w)", (1, 8, 1, 2 * _OPERATORS + 1), (8, 8, 1, 3), {}),
}


class _Contestant:
    """A machine with a chain of operators."""

    def __init__(self, case: str, graphs: str) -> None:
        operator, *shapes, config = _CASES[case]
        chain = "".join(f"let %y{i} = {operator.replace('%y', f'%y{i - 1}')}; " for i in range(1, _OPERATORS + 1))
        sizes = [["?"] * len(s) for s in shapes]
        if case in _NEW_SIZES:  # or the width would be a longer sum after each convolution
            sizes[1] = list(map(str, shapes[1]))
        types = [f"Tensor[({', '.join(s)}), float32]" for s in sizes]
        params = "".join(f", %w: {type}" for s, type in zip(shapes[1:], types[1:], strict=True) if s)
        text = f'#[version = "0.0.5"]\ndef @main(%x: {types[0]}{params}) {{ let %y0 = %x; {chain}%y{_OPERATORS} }}'
        options = {"graphs": graphs, "fuse": False, "opt_level": 1, **config}
        self.vm = relay.VirtualMachine(relay.compile(text, target="cuda", **options))
        self.arguments = [np.ones(s, np.float32) for s in shapes if s]
        for _ in range(3):
            self.vm.run(*self.arguments)
        assert self.vm.counters["launches"] == 3 * _OPERATORS

    def nanoseconds(self) -> float:
        """The time per operator of some runs."""
        start = time.perf_counter_ns()
        for _ in range(_RUNS):
            self.vm.run(*self.arguments)
        return (time.perf_counter_ns() - start) / _RUNS / _OPERATORS


class _Call:
    """A machine with one fused operator; its arguments are results of the machine, or numpy arrays."""

    def __init__(self, count: int, kind: str) -> None:
        params = ", ".join(f"%x{i}: Tensor[(?n), float32]" for i in range(count))
        put = "def @put(%x: Tensor[(?), float32]) { nn.relu(%x) }"
        text = f'#[version = "0.0.5"]\n{put}\ndef @main({params}) {{ {" + ".join(f"nn.relu(%x{i})" for i in range(count))} }}'
        self.vm = relay.VirtualMachine(relay.compile(text, target="cuda"))
        array = np.ones(16, np.float32)
        self.arguments = [self.vm["put"](array) if kind == _PLACED else array for _ in range(count)]
        before = self.vm.counters
        for _ in range(3):
            self.vm.run(*self.arguments)
        assert self.vm.counters["launches"] - before["launches"] == 3
        assert kind != _PLACED or self.vm.counters["htod_copies"] == before["htod_copies"]

    def nanoseconds(self) -> float:
        """The time per call of some calls."""
        start = time.perf_counter_ns()
        for _ in range(_RUNS):
            self.vm.run(*self.arguments)
        return (time.perf_counter_ns() - start) / _RUNS


@click.command()
@click.option("--rounds", default=15, show_default=True)
def main(rounds: int) -> None:
    """Print nanoseconds per operator and per call, median with min and max."""
    with tempfile.TemporaryDirectory() as folder:
        provider.provider, nvrtc.compiler = _Idle(Path(folder)), _NoCompiler()
        ways = {"off": "launched one by one", "on": "replayed as a graph"}
        contestants: dict[str, _Contestant | _Call] = {
            f"{case}, {way}: # ns per operator": _Contestant(case, graphs) for graphs, way in ways.items() for case in _CASES
        }
        for kind in (_PLACED, _ARRAYS):
            contestants |= {f"call, {kind}: {n}: # ns": _Call(n, kind) for n in _ARGUMENTS}
        taken: dict[str, list[float]] = {key: [] for key in contestants}
        for number in range(rounds):
            for key in list(contestants)[:: 1 if number % 2 else -1]:
                taken[key].append(contestants[key].nanoseconds())
        for key, times in taken.items():
            print(key.replace("#", f"{np.median(times):.1f} [{min(times):.1f}..{max(times):.1f}]"))


if __name__ == "__main__":
    main()
