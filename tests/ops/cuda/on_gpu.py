"""Run the CUDA kernels of one operator call on numpy arrays, on the emulated GPU; and compiles them as for a real one."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from relayvm.ops.codegen.cuda import opaque_cuda
from relayvm.ops.codegen.cuda.cuda_program import (
    Address,
    Convolution,
    CudaSource,
    Data,
    Extent,
    Fault,
    Handle,
    Launch,
    LibraryCall,
    MatrixProduct,
    Scratch,
    Site,
    Size,
    Step,
    Turns,
    Word,
)
from relayvm.ops.core.group import Group, Literal, Node
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import Tensor, numpy_dtype
from relayvm.ops.core.type_relation import build_group, shape_program
from relayvm.ops.native.memory import free
from relayvm.ops.native.status import OK
from relayvm.shape_funcs.symbolic.dim import Dim, Shape, axis_size, const, dim, sym
from relayvm.shape_funcs.symbolic.program import SIZE, Load, ShapeProgram, assemble
from relayvm.vm.devices.cuda import launch_table
from relayvm.vm.devices.cuda.cublas_lt import ProductLibrary
from relayvm.vm.devices.cuda.cudnn.library import ConvolutionLibrary
from relayvm.vm.devices.cuda.cudnn_table import close_convolutions, has_plan
from relayvm.vm.devices.cuda.driver_api.driver import addresses
from relayvm.vm.devices.cuda.graphs.held_back import issue_entry
from relayvm.vm.devices.cuda.matrix_products import clear_products, has_algorithm
from relayvm.vm.state.gpu_layout import GPU, OUT_WORDS

from ...emulator import emulator, proof
from ...emulator.session import Session, call, word

SITE = 7
#: Bytes of workspace of cuBLASLt.
_WORKSPACE = 1 << 20


class Ran(NamedTuple):
    """The outcome of a call: the allocated results, its status, the size that an upper-bound operator reported."""

    outputs: list[np.ndarray]
    status: int
    count: int


def group_of(
    name: str,
    attrs: Any,
    inputs: Sequence[Any],
    *,
    static: bool | tuple[int, ...] = False,
    literals: Sequence[int] = (),
    implementation: str = "",
) -> Group:
    """One call of an operator; dims are unknown unless ``static``; the inputs at ``literals`` are constants of the group.

    ``static``: all dims are known, or the dims of these axes.  ``implementation``: the default one if empty."""

    def tensor(array: np.ndarray, k: int) -> Tensor:
        known = range(array.ndim) if static is True else static or ()
        return Tensor(array.dtype.name, tuple(dim(n) if i in known else sym(f"d{k}_{i}") for i, n in enumerate(array.shape)))

    given = [k for k in range(len(inputs)) if k not in literals]
    place = {k: n for n, k in enumerate([*given, *literals])}
    params = tuple(tensor(inputs[k], k) for k in given)
    constants = tuple(Literal(inputs[k].dtype.name, inputs[k].item()) for k in literals)
    n_outputs = len(np.atleast_1d(get(name).dtype(tuple(a.dtype.name for a in inputs), attrs)))
    node = Node(name, attrs, tuple(place[k] for k in range(len(inputs))), ())
    group = build_group(params, constants, (node,), range(len(inputs), len(inputs) + n_outputs))
    return replace(group, implementation=implementation or group.implementation)


def source_of(
    name: str,
    inputs: Sequence[Any],
    *,
    static: bool | tuple[int, ...] = False,
    literals: Sequence[int] = (),
    implementation: str = "",
    **attributes: Any,
) -> CudaSource:
    """The CUDA program of the call."""
    attrs = get(name).attrs(**attributes)
    return opaque_cuda.source(group_of(name, attrs, inputs, static=static, literals=literals, implementation=implementation))


def run(
    name: str,
    inputs: Sequence[Any],
    *,
    static: bool | tuple[int, ...] = False,
    literals: Sequence[int] = (),
    schedule: int = 0,
    resident: int = 3,
    implementation: str = "",
    no_algorithm: bool = False,
    no_plan: bool = False,
    **attributes: Any,
) -> Ran:
    """Run the operator on arrays on the emulated GPU; ``schedule``: the order in which blocks and threads take turns;
    ``resident``: the blocks of a launch on the GPU at once;
    ``no_algorithm``: cuBLASLt multiplies nothing; ``no_plan``: cuDNN convolves nothing."""
    arrays = [np.ascontiguousarray(a) if np.ndim(a) else np.asarray(a) for a in inputs]
    attrs = get(name).attrs(**attributes)
    group = group_of(name, attrs, arrays, static=static, literals=literals, implementation=implementation)
    given = [a for k, a in enumerate(arrays) if k not in literals]
    shapes = shape_program(group).program.run(given)
    dtypes = [numpy_dtype(group.values()[r].dtype) for r in group.results]
    has_counts = get(name).shape_func.upper_bound
    with Session() as gpu:
        emulator.set("schedule", schedule)
        emulator.set("resident", resident)
        emulator.set("no_algorithm", int(no_algorithm))
        emulator.set("no_plan", int(no_plan))
        addresses = [gpu.put(a) for a in given]
        results = [gpu.allocate(max(1, int(np.prod(s)) * d.itemsize)) for s, d in zip(shapes, dtypes, strict=True)]
        counts = gpu.put(np.full(1, -1, np.int64))
        dims = [*(t.shape for t in group.params), *(group.values()[r].shape for r in group.results)]
        tensors = [*addresses, *results, *([counts] if has_counts else [])]
        status = _Steps(gpu, opaque_cuda.source(group), tensors, dims, [*(a.shape for a in given), *shapes]).run()
        outputs = [gpu.get(a, s, d) for a, s, d in zip(results, shapes, dtypes, strict=True)]
        return Ran(outputs, status, int(gpu.get(counts, (1,), np.int64)[0]))


def steps_of(steps: Sequence[Step]) -> list[str]:
    """The function or kernel that each step calls."""
    names = {
        Turns: lambda s: "turns",
        MatrixProduct: lambda s: "cublasLtMatmul",
        Convolution: lambda s: "cudnnBackendExecute",
        LibraryCall: lambda s: s.function,
        Launch: lambda s: s.entry,
    }
    return [names[type(step)](step) for step in steps]


def run_over_rows(name: str, inputs: Sequence[np.ndarray], rows: int, **attributes: Any) -> np.ndarray:
    """The first input after the operator has written its result over it, as if it had ``rows`` rows.

    Only its own rows are in memory: an access of another is a CudaError.
    """
    claimed = (rows, *inputs[0].shape[1:])
    group = group_of(name, get(name).attrs(**attributes), [np.broadcast_to(inputs[0][:1], claimed), *inputs[1:]], static=True)
    shapes = [claimed, *(a.shape for a in inputs[1:]), claimed]
    with Session() as gpu:
        first, *others = [gpu.put(a) for a in inputs]
        steps = _Steps(gpu, opaque_cuda.source(group), [first, *others, first], shapes, shapes)
        assert steps.run(is_checked=True) == OK
        return gpu.get(first, inputs[0].shape, inputs[0].dtype)


def _address(symbol: str) -> int:
    """The address of a function of the driver or a library."""
    return ctypes.cast(getattr(emulator.library(), symbol), ctypes.c_void_p).value or 0


@functools.lru_cache(4096)
def _program(size: Dim, dims: tuple[Shape, ...]) -> ShapeProgram:
    """The program of a size over tensors of these dims, which the examples of a property share."""
    return assemble([(size,)], [], _loads(dims))


@functools.lru_cache(256)
def _loads(dims: tuple[Shape, ...]) -> dict[Dim, Load]:
    loads: dict[Dim, Load] = {}
    for position, shape in reversed(list(enumerate(dims))):
        loads.update({d: (position, SIZE, axis) for axis, d in enumerate(shape) if const(d) is None})
        loads.update({axis_size(position, axis): (position, SIZE, axis) for axis in range(len(shape))})
    return loads


class _Steps:
    """Executes the steps of a CudaSource in Python, as the machine does."""

    def __init__(self, gpu: Session, source: CudaSource, tensors: list[int], dims: list[Any], shapes: list[Any]) -> None:
        self.gpu, self.source, self.tensors = gpu, source, tensors
        self.arrays = [np.broadcast_to(np.int8(0), shape) for shape in shapes]
        self.dims, self.values = tuple(map(tuple, dims)), dict[Dim, int]()
        self.fault = gpu.put(np.zeros(1, np.uint64))
        self.scratch = [gpu.allocate(max(1, self.value(n))) for n in source.scratch]
        self.handles: dict[str, int] = {}
        self.first_item = 0
        self.kept: list[Any] = []
        self.finalizers: list[Any] = []

    def value(self, extent: Extent) -> int:
        """A size, by a shape program over the tensors' shapes alone; each is computed once."""
        size = dim(extent)
        if size not in self.values:
            self.values[size] = _program(size, self.dims).run(self.arrays)[0][0]
        return self.values[size]

    def run(self, is_checked: bool = emulator.CHECKED) -> int:
        """Run all steps; the status that a kernel reported, 0 if none."""
        if self.source.text:
            proof.prove(self.source.text)
        image = emulator.compile(self.source.text, checked=is_checked) if self.source.text else b""
        self.run_steps(self.source.steps, image)
        return self.close()

    def run_steps(self, steps: Sequence[Step], image: bytes) -> None:
        """Run steps, those of turns for each turn."""
        replaced = 0
        for k, step in enumerate(steps):
            if replaced > 0:
                replaced -= 1
            elif isinstance(step, Turns):
                replaced, total, per = step.n_steps, self.value(step.total), self.value(step.per)
                for done in range(0, total, max(per, 1)):
                    self.first_item = min(done, total - per)
                    self.run_steps(steps[k + 1 : k + 1 + replaced], image)
            elif isinstance(step, MatrixProduct):
                replaced = step.instead if self.value(step.unless) != 0 and self.product(step) else 0
            elif isinstance(step, Convolution):
                replaced = step.instead if self.value(step.unless) != 0 and self.convolution(step) else 0
            elif isinstance(step, Launch):
                grid = [self.value(e) for e in step.grid]
                assert min(grid) >= 0
                if min(grid) > 0:
                    args = [self.argument(a) for a in step.args]
                    shared_bytes = self.value(step.shared_bytes)
                    self.gpu.allow_shared(image, step.entry, shared_bytes)
                    self.gpu.launch(image, step.entry, grid, step.block, args, shared_bytes)
            elif self.value(step.unless) != 0:
                self.library(step)

    def close(self) -> int:
        """Release what the steps have made; the status that a kernel reported."""
        fault = int(self.gpu.get(self.fault, (1,), np.uint64)[0])
        for handle in self.handles.values():
            call("cublasDestroy_v2", word(handle))
        while self.finalizers:
            self.finalizers.pop()()
        assert fault == 0 or fault >> 8 == SITE
        return fault & 0xFF

    def convolution(self, step: Convolution) -> bool:
        """Launch a convolution by the machine's own functions, interpreted; whether the library has a plan."""
        block, out = np.zeros(1, GPU), np.zeros(OUT_WORDS, np.int64)
        workspace = self.gpu.allocate(_WORKSPACE)
        library = ConvolutionLibrary(_address, self.gpu.stream, workspace, _WORKSPACE, self.finalizers.append)
        block["out"], block["convolutions"], block["compute"] = out.ctypes.data, library.address, self.gpu.stream
        driver = np.array(addresses(emulator.library()), np.int64)
        block["driver"] = driver.ctypes.data
        entry = launch_table.convolution_entry(step, library.convolution(step))
        words = np.array([self.argument(a) for a in entry], np.int64)
        found = has_plan(block.ctypes.data, words.ctypes.data)
        status = issue_entry(block.ctypes.data, words.ctypes.data) if found else OK
        assert status == OK, (int(block["error"][0]), emulator.text())
        close_convolutions(block.ctypes.data)
        free(int(block["queue"][0]))
        return found

    def product(self, step: MatrixProduct) -> bool:
        """Launch a product by the machine's own functions, interpreted; whether the library has an algorithm."""
        block, out = np.zeros(1, GPU), np.zeros(OUT_WORDS, np.int64)
        library = ProductLibrary(_address, self.gpu.allocate(_WORKSPACE), _WORKSPACE, self.finalizers.append)
        block["out"], block["products"], block["compute"] = out.ctypes.data, library.address, self.gpu.stream
        alpha, beta = self.argument(step.alpha), self.argument(step.beta)
        entry = launch_table.product_entry(step, library.product(step, alpha, beta))
        words = np.array([self.argument(a) for a in entry], np.int64)
        found = has_algorithm(block.ctypes.data, words.ctypes.data)
        status = issue_entry(block.ctypes.data, words.ctypes.data) if found else OK
        assert status == OK, (int(block["error"][0]), emulator.text())
        clear_products(block.ctypes.data)
        free(int(block["queue"][0]))
        return found

    def library(self, step: LibraryCall) -> None:
        function = getattr(emulator.library(), step.function)
        status = function(*(word(self.argument(a)) for a in step.args))
        assert status == 0, (step.function, status, emulator.text())

    def argument(self, argument: Any) -> int:
        if isinstance(argument, Data):
            return self.tensors[argument.position] + self.first_item * self.value(argument.item_bytes)
        if isinstance(argument, Size):
            return self.value(argument.dim)
        if isinstance(argument, Word):
            return argument.value
        if isinstance(argument, Scratch):
            return self.scratch[argument.index]
        if isinstance(argument, Fault):
            return self.fault
        if isinstance(argument, Site):
            return SITE
        if isinstance(argument, Handle):
            return self.handle(argument.library)
        assert isinstance(argument, Address)
        self.kept.append(ctypes.create_string_buffer(argument.content))
        return ctypes.addressof(self.kept[-1])

    def handle(self, library: str) -> int:
        assert library == "cublas"
        if library not in self.handles:
            made = ctypes.c_uint64()
            call("cublasCreate_v2", ctypes.byref(made))
            call("cublasSetStream_v2", made, word(self.gpu.stream))
            self.handles[library] = made.value
        return self.handles[library]
