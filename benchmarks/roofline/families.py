"""The programs whose kernels are predicted, and the execution of their kernels at given sizes."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.ops.codegen.cuda import cuda_source, look_back
from relayvm.ops.codegen.cuda.cuda_program import Data, Launch, Scratch, Size, Word
from relayvm.ops.codegen.cuda.device_code import disassembler, nvrtc
from relayvm.ops.codegen.cuda.machine_code import MachineCode, machine_code
from relayvm.ops.core.group import Group
from relayvm.ops.core.tensor_types import HALVES, ITEMSIZE, numpy_dtype
from relayvm.ops.core.type_relation import shape_program
from relayvm.shape_funcs.symbolic.dim import axis_size, const, dim
from relayvm.shape_funcs.symbolic.program import SIZE, assemble

from .block import Block
from .decoded import Step, kernels
from .model import COPY_RATE, PRODUCT_RATE, Bounds, bounds

_MATRIX, _VECTOR = "Tensor[(?n, ?m), float32]", "Tensor[(?m), float32]"
_HEADER = '#[version = "0.0.5"]\n'
NORMED = f"""
def @main(%x: {_MATRIX}, %b: {_VECTOR}, %r: {_MATRIX}, %g: {_VECTOR}, %s: {_VECTOR}) {{
  let %a = %x + %b;
  let %h = 0.5f * %a * (1f + erf(0.70710678f * %a)) + %r;
  let %centred = %h - mean(%h, axis=[1], keepdims=True);
  %centred * rsqrt(variance(%h, axis=[1], keepdims=True) + 0.00001f) * %g + %s
}}"""
_FOUR = ", ".join(f"%{name}: Tensor[(?, ?), float32]" for name in "abcd")


def _unary(expression: str, kind: str = _MATRIX) -> str:
    return f"def @main(%x: {kind}) {{ {expression} }}"


def _joined(axis: int) -> str:
    return f"def @main({_FOUR}) {{ concatenate((%a, %b, %c, %d), axis={axis}) }}"


_TRANSPOSED = _unary("transpose(%x, axes=[0, 2, 3, 1])", "Tensor[(?, ?, ?, ?), float32]")
_CHANNELS = _unary("nn.softmax(%x, axis=1)", "Tensor[(?, ?, ?, ?), float32]")
_LAYER_NORM = f"def @main(%x: {_MATRIX}, %w: {_VECTOR}) {{ nn.layer_norm(%x, %w, %w) }}"


#: Blocks of a launch that are executed.
SAMPLES = 4


@dataclass(frozen=True)
class Family:
    """A program, the shapes of its arguments, and the fewest bytes it must read and write.

    ``products``: the float32 multiplications with an addition that it must make.  ``samples``: blocks of a launch that are
    executed, at equal distances.  ``elements``: for which bytes and instructions are stated, of attention the scores.
    ``has_zeros``: half of the elements of the arguments are 0.  ``dtype``: of the arguments.  ``writes_positions``: the result is
    of int32.
    """

    name: str
    text: str
    shapes: tuple[tuple[int, ...], ...]
    result_bytes: int
    has_zeros: bool = False
    dtype: str = "float32"
    writes_positions: bool = False
    products: int = 0
    samples: int = SAMPLES
    elements: int = 1 << 24

    @property
    def nbytes(self) -> int:
        return sum(ITEMSIZE[self.dtype] * math.prod(s) for s in self.shapes) + self.result_bytes

    @property
    def seconds(self) -> float:
        """The least time, at the rate of copies or of products."""
        return max(self.nbytes / COPY_RATE, self.products / PRODUCT_RATE)

    def of(self, dtype: str) -> Family:
        """The same program for arguments and a result of another dtype."""
        text = re.sub(r"([\d.]+)f\b", rf"\1{dtype.replace('loat', '')}", self.text.replace("float32", dtype))
        written = self.result_bytes if self.writes_positions else self.result_bytes * ITEMSIZE[dtype] // 4
        return replace(self, name=f"{self.name}, {dtype}", text=text, result_bytes=written, dtype=dtype)


def _rows(name: str, text: str, rows: int, columns: int, written: int | None = None) -> Family:
    return Family(name, text, ((rows, columns),), 4 * (rows * columns if written is None else written))


def _normed(rows: int, columns: int) -> Family:
    row = (columns,)
    shapes = ((rows, columns), row, (rows, columns), row, row)
    return Family(f"layernorm(gelu(x + b) + r), {columns}", NORMED, shapes, 4 * rows * columns)


#: The parameter of a kernel for elements that an earlier launch has stored: here in no order.
MOVED = "const Moved* from_moved"
#: Elements of the largest tensor of each program.
_N = 1 << 24
_ROWS = 1 << 11
_FLOATS = (
    _normed(_N >> 10, 1024), _normed(_ROWS, 8192),
    *(_rows(f"softmax, {m}", _unary("nn.softmax(%x)"), _N // m, m) for m in (1000, 1024, 8192, 16384)),
    Family("layer_norm, 1024", _LAYER_NORM, ((_N >> 10, 1024), (1024,)), 4 * _N),
    _rows("sum, last axis", _unary("sum(%x, axis=[1])"), _ROWS, 8192, _ROWS),
    _rows("sum, first axis", _unary("sum(%x, axis=[0])"), _ROWS, 8192, 8192),
    _rows("sum, all axes", _unary("sum(%x)"), _ROWS, 8192, 1),
    Family("concatenate 4, axis 0", _joined(0), ((_ROWS // 4, 8192),) * 4, 4 * _N),
    Family("concatenate 4, axis 1", _joined(1), ((_ROWS, 2048),) * 4, 4 * _N),
    _rows("transpose", _unary("transpose(%x, axes=[1, 0])"), 4096, 4096),
    Family("transpose NCHW to NHWC", _TRANSPOSED, ((16, 256, 64, 64),), 4 * _N),
    Family("cumsum", _unary("cumsum(%x, axis=0)", _VECTOR), ((_N,),), 4 * _N),
    _rows("cumsum, first axis", _unary("cumsum(%x, axis=0)"), 4096, 4096),
    _rows("cumsum of 8 columns", _unary("cumsum(%x, axis=0)"), _N >> 3, 8),
    _rows("softmax, first axis", _unary("nn.softmax(%x, axis=0)"), 4096, 4096),
    Family("softmax of 256 channels", _CHANNELS, ((16, 256, 64, 64),), 4 * _N),
    # a sixth of the blocks have a part more than the others: of five at equal distances, one
    Family("argwhere", _unary("argwhere(%x)", _VECTOR), ((_N,),), 4 * _N // 2, has_zeros=True, samples=5),
    Family("argwhere(x > 0)", _unary("argwhere(%x > 0f)", _VECTOR), ((_N,),), 4 * _N // 2, samples=5),
    _rows("elementwise", _unary("tanh(exp(%x))"), _ROWS, 8192),
)  # fmt: skip
#: The families that are predicted for dtypes of 2 bytes, too.
HALVED = (
    "layernorm(gelu(x + b) + r), 1024", "softmax, 1024", "sum, last axis", "sum, first axis", "concatenate 4, axis 1",
    "transpose", "transpose NCHW to NHWC", "cumsum",
)  # fmt: skip
_FIRST = 'topk(%x, k={}, axis=-1, ret_type="indices")'
_ORDERED = (
    Family("sort", _unary("sort(%x)", _VECTOR), ((_N,),), 4 * _N),
    Family("argsort", _unary("argsort(%x)", _VECTOR), ((_N,),), 4 * _N, writes_positions=True),
    Family("topk 10", _unary(_FIRST.format(10), _VECTOR), ((_N,),), 4 * 10, writes_positions=True),
    Family("topk 10, rows of 8192", _unary(_FIRST.format(10)), ((_ROWS, 8192),), 4 * 10 * _ROWS, writes_positions=True),
    Family("topk 300, rows of 8192", _unary(_FIRST.format(300)), ((_ROWS, 8192),), 4 * 300 * _ROWS, writes_positions=True),
)
#: The families that sort or select, and the dtypes for which sorts are predicted, too.
ORDERED = (*_ORDERED, *(f.of(dtype) for dtype in ("bfloat16", "int64") for f in _ORDERED[:2]))


def _attention(name: str, batch: int, queries: int, keys: int) -> Family:
    """Attention by heads of 64 elements: 12 heads for each of the batch."""
    kinds = {"q": "m", "k": "n", "v": "n"}
    params = ", ".join(f"%{name}: Tensor[(?b, ?{size}, ?h, {_HEAD}), float32]" for name, size in kinds.items())
    text = f"def @main({params}) {{ nn.batch_attention(%q, %k, %v, scale=0.125) }}"
    shapes = tuple((batch, size, 12, _HEAD) for size in (queries, keys, keys))
    scores = batch * 12 * queries * keys
    return Family(name, text, shapes, 4 * math.prod(shapes[0]), products=2 * _HEAD * scores, samples=1, elements=scores)


_HEAD = 64
ATTENTION = (
    _attention("attention, 512 queries and keys", 8, 512, 512),
    _attention("attention, 4096 queries and keys", 1, 4096, 4096),
    _attention("attention, 1 query, 4096 keys", 8, 1, 4096),
)
FAMILIES = (*_FLOATS, *(f.of(dtype) for dtype in HALVES for f in _FLOATS if f.name in HALVED), *ORDERED, *ATTENTION)


@dataclass(frozen=True)
class Ran:
    """A launch: its kernel, the number of its blocks, and the bounds of its time."""

    code: MachineCode
    blocks: int
    bounds: Bounds


def compile_cubin(text: str) -> bytes:
    """The cubin of CUDA C, from the kernel cache or NVRTC."""
    return nvrtc.cubin(text, "sm_90", by=nvrtc.Nvrtc())


@functools.cache
def assembled(text: str) -> tuple[dict[str, list[Step]], dict[str, MachineCode]]:
    """The machine code for sm_90 of CUDA C.  Raises NoNvrtc and NoDisassembler."""
    image = compile_cubin(text)
    listing = disassembler.listing(image)
    return kernels(listing), {c.kernel: c for c in machine_code(listing, disassembler.resource_usage(image))}


def launches(
    family: Family, arrays: Sequence[np.ndarray] | None = None, whole: bool = False
) -> tuple[list[Ran], list[np.ndarray]]:
    """The launches of a family's program, and its result: from some blocks of each launch, or the ``whole`` grid."""
    exe = relay.compile(relay.parse(_HEADER + family.text), target="cuda")
    arrays = list(arguments(family, family.shapes) if arrays is None else arrays)
    found = list[Ran]()
    for packed in exe.packed:
        # the blocks that did not run left no values: half of the elements are chosen
        arrays = [a if whole or a.dtype != bool else _repeated(_numbers(a.size) > 0, a.shape) for a in arrays]
        ran, arrays = _group(packed.group, arrays, whole, family.samples)
        found += ran
    return found, arrays


def arguments(family: Family, shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    """Arguments of a family's program, of these shapes."""
    return [_repeated(_drawn(family, math.prod(s)), s) for s in shapes]


def _drawn(family: Family, count: int) -> np.ndarray:
    drawn = np.maximum(_numbers(count), 0) if family.has_zeros else _numbers(count)
    return drawn.astype(numpy_dtype(family.dtype)) if family.dtype != "int64" else (drawn * 2.0**62).astype(np.int64)


def _numbers(count: int) -> np.ndarray:
    """Numbers from -1 to 1, at most a million of them."""
    return np.random.default_rng(0).uniform(-1, 1, min(count, 1 << 20)).astype(np.float32)


def _repeated(drawn: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.resize(drawn, math.prod(shape)).reshape(shape)


def _in_order(group: Group, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The arguments of a group: those of the program, by rank."""
    left, found = list(arrays), []
    for param in group.params:
        found.append(left.pop(next(k for k, a in enumerate(left) if a.ndim == len(param.shape))))
    return found


def _post(text: str, launch: Launch, part: int, memory: list[np.ndarray], first_scratch: int) -> None:
    """Let a block that looks back find its number, and the sums before its part: the blocks before it did not run."""
    declared = re.search(rf"\b{launch.entry}\(([^)]*)\)", text)
    assert declared is not None, launch.entry
    for parameter, argument in zip(declared[1].split(", "), launch.args, strict=True):
        if parameter == MOVED and isinstance(argument, Scratch):
            moved = memory[first_scratch + argument.index]
            moved[:] = np.resize(memory[0], moved.size)
        if parameter == " ".join(look_back.POSTED) and isinstance(argument, Scratch) and look_back.ALL_PARTS in declared[1]:
            posted = memory[first_scratch + argument.index].view(np.uint64)
            posted[:1], posted[1:] = part, look_back.SUM_UP_TO << look_back.STATE_SHIFT


def _group(group: Group, arrays: Sequence[np.ndarray], whole: bool, samples: int) -> tuple[list[Ran], list[np.ndarray]]:
    source, values = cuda_source(group), group.values()
    arrays = _in_order(group, arrays)
    shapes = [tuple(s) for s in shape_program(group).program.run(list(arrays))]
    results = [np.zeros(math.prod(s) * ITEMSIZE[values[r].dtype], np.uint8) for s, r in zip(shapes, group.results, strict=True)]
    dims = [*(t.shape for t in group.params), *(values[r].shape for r in group.results)]
    sizes = [*(a.shape for a in arrays), *shapes]
    loads: dict[Any, Any] = {
        d: (p, SIZE, a) for p, s in reversed(list(enumerate(dims))) for a, d in enumerate(s) if const(d) is None
    }
    loads |= {axis_size(k, a): (k, SIZE, a) for k, s in enumerate(sizes) for a in range(len(s))}

    def value(extent: Any) -> int:
        program = assemble([(dim(extent),)], [], loads)
        return int(program.run([np.broadcast_to(np.int8(0), s) for s in sizes])[0][0])

    memory = [np.ascontiguousarray(a).view(np.uint8).reshape(-1) for a in arrays] + results + [np.zeros(8, np.uint8)]
    first_scratch = len(memory)
    memory += [np.zeros(value(n), np.uint8) for n in source.scratch]

    def word(argument: Any) -> int:
        match argument:
            case Data():
                return (argument.position + 1) << 36
            case Scratch():
                return (first_scratch + argument.index + 1) << 36
            case Size():
                return value(argument.dim)
            case Word():
                return argument.value
        return 0

    def run(launch: Launch, place: tuple[int, int], grid: list[int], words: list[int]) -> Block:
        if not whole:
            _post(source.text, launch, place[0], memory, first_scratch)
        block = Block(steps[launch.entry], launch.block[0], place, (grid[0], grid[1]), words, memory)
        block.run()
        return block

    ran = []
    steps, codes = assembled(source.text)
    for launch in source.steps:
        assert isinstance(launch, Launch), launch
        grid = [value(e) for e in launch.grid]
        if min(grid) == 0:
            continue
        count, words = math.prod(grid), [word(a) for a in launch.args]
        middle = sorted({(grid[0] * k // samples, grid[1] // 2) for k in range(samples)})
        positions = [(n % grid[0], n // grid[0]) for n in range(count)] if whole else middle
        blocks = [run(launch, place, grid, words) for place in positions]
        dynamic = value(launch.shared_bytes)
        ran.append(Ran(codes[launch.entry], count, bounds(codes[launch.entry], blocks, count, dynamic)))
    kinds = [numpy_dtype(values[r].dtype) for r in group.results]
    return ran, [r.view(k).reshape(s) for r, k, s in zip(results, kinds, shapes, strict=True)]
