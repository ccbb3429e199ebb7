"""Operators that are instructions of the machine: the compiler puts them into the IR, no program writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .op import NoAttrs, Op, OpPattern, TypeRelError


def _first(dtypes: tuple[Any, ...], attrs: Any) -> Any:
    return dtypes[0]


# ---- put in by type inference ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AssertShapeAttrs:
    """``dims``: per axis the size demanded, or -1 for any."""

    dims: tuple[int, ...]


@dataclass(frozen=True)
class AssertSameSizeAttrs:
    """The axis of each of the two tensors; ``message``: what to say where they differ, with two holes for the sizes."""

    axis: int
    other_axis: int
    message: str = "two sizes must be equal, but are {} and {}"


ASSERT_SHAPE = Op(
    name="vm.assert_shape",
    doc="Its input, once every axis is known to have the size demanded; status SHAPE_CHECK otherwise.",
    inputs=("data",),
    attrs=AssertShapeAttrs,
    pattern=OpPattern.MACHINE,
    dtype=_first,
    stateful=True,
)
ASSERT_SAME_SIZE = Op(
    name="vm.assert_same_size",
    doc="``data``, once its axis ``axis`` is known to be as long as axis ``other_axis`` of ``other``; else SHAPE_CHECK.",
    inputs=("data", "other"),
    attrs=AssertSameSizeAttrs,
    pattern=OpPattern.MACHINE,
    dtype=_first,
    stateful=True,
)

# ---- put in by lambda lifting --------------------------------------------------------------------------------------

ALLOC_CLOSURE = Op(
    name="vm.alloc_closure",
    doc="A closure of a global function: `vm.alloc_closure(@f, %captured, ...)`; a call passes the captured values first.",
    inputs=("function", "captured*"),
    pattern=OpPattern.MACHINE,
    dtype=_first,
)

# ---- put in by placement, or written by the program ----------------------------------------------------------------


@dataclass(frozen=True)
class OnDeviceAttrs:
    """``device``: the host or the target."""

    device: str


ON_DEVICE = Op(
    name="on_device",
    doc='Its input, computed on this device: `on_device(%x, device="cpu")`.',
    inputs=("data",),
    attrs=OnDeviceAttrs,
    pattern=OpPattern.MACHINE,
    dtype=_first,
)

# ---- put in by manifest_alloc and manifest_lifetimes ---------------------------------------------------------------


@dataclass(frozen=True)
class AllocStorageAttrs:
    """``nbytes`` bytes on ``device``; ``why``: what keeps it from being one that is there already, as far as a plan says."""

    nbytes: int
    device: str = "cpu"
    why: str = ""


@dataclass(frozen=True)
class AllocTensorAttrs:
    """A view of ``shape`` and ``dtype``, ``offset`` bytes into the storage."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    offset: int = 0


@dataclass(frozen=True)
class AllocStorageRegAttrs:
    """Room for a tensor of ``dtype`` on ``device``; ``why`` as in AllocStorageAttrs."""

    dtype: str = "float32"
    device: str = "cpu"
    why: str = ""


@dataclass(frozen=True)
class TakeStorageAttrs:
    """On ``device``."""

    device: str = "cpu"


@dataclass(frozen=True)
class AllocTensorRegAttrs:
    """A view of ``dtype``, ``offset`` bytes into the storage."""

    dtype: str = "float32"
    offset: int = 0


@dataclass(frozen=True)
class LoadConstAttrs:
    """Where the constant is wanted."""

    device: str = "cpu"


@dataclass(frozen=True)
class DeviceCopyAttrs:
    """From ``src`` to ``dst``, and why: the key of a kind of reason, whose need it is, and as which input."""

    src: str
    dst: str
    reason: str = "on_device"
    op: str = ""
    input: str = ""


@dataclass(frozen=True)
class TrimAttrs:
    """Which element of the counts.  ``release``: where it pays, the rows move into a storage of their own."""

    index: int = 0
    release: bool = False


@dataclass(frozen=True)
class SizesAttrs:
    """The program, as in ShapeProgram: what is read of the tensors, the operations, and which of these make each vector."""

    loads: tuple[tuple[int, int, int], ...]
    rows: tuple[tuple[int, int, int, int], ...]
    outputs: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class InvokeOpAttrs:
    """How many of the last arguments the kernel fills; ``workspace``: is the last of these memory that it works in, no result?"""

    n_outputs: int = 1
    workspace: bool = False


def _by_the_compiler(name: str, inputs: tuple[str, ...], doc: str, attrs: type = NoAttrs) -> Op:
    """A machine operator that has no type rule, because it comes after type inference."""

    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        raise TypeRelError(f"{name} is put in by the compiler after type inference; a program cannot call it")

    return Op(name=name, doc=doc, inputs=inputs, attrs=attrs, pattern=OpPattern.MACHINE, dtype=rule, stateful=True)


ALLOC_STORAGE = _by_the_compiler("memory.alloc_storage", (), "Storage of a size known at compile time.", AllocStorageAttrs)
ALLOC_TENSOR = _by_the_compiler("memory.alloc_tensor", ("storage",), "A tensor of a known shape in a storage.", AllocTensorAttrs)
ALLOC_STORAGE_REG = _by_the_compiler(
    "memory.alloc_storage_reg", ("shape",), "Storage for a tensor whose shape is a vector on the host.", AllocStorageRegAttrs
)
ALLOC_TENSOR_REG = _by_the_compiler(
    "memory.alloc_tensor_reg", ("storage", "shape"), "A tensor whose shape is a vector on the host.", AllocTensorRegAttrs
)
TAKE_STORAGE = _by_the_compiler(
    "memory.take_storage",
    ("data",),
    "Storage for as many bytes as a tensor has: the tensor's own if nothing else refers to it, for who writes over it.",
    TakeStorageAttrs,
)
KILL = _by_the_compiler("memory.kill", ("values*",), "These values are not used again: `memory.kill(%x, %y)`.")
LOAD_CONST = _by_the_compiler("vm.load_const", ("constant",), "A constant on a device.", LoadConstAttrs)
DEVICE_COPY = Op(
    name="device_copy",
    doc='A copy of a tensor on another device: `device_copy(%x, src="sim", dst="cpu")`.  A program may ask for one.',
    inputs=("data",),
    attrs=DeviceCopyAttrs,
    pattern=OpPattern.MACHINE,
    dtype=_first,
    stateful=True,
)
COPY_BEGIN = _by_the_compiler(
    "vm.copy_begin",
    ("data",),
    'A copy to the host that is asked for, not waited for: `vm.copy_wait(vm.copy_begin(%x, src="sim", dst="cpu"))`.',
    DeviceCopyAttrs,
)
COPY_WAIT = _by_the_compiler("vm.copy_wait", ("pending",), "The tensor on the host that `vm.copy_begin` makes.")
INVOKE_OP = _by_the_compiler(
    "vm.invoke_op", ("function", "args*"), "Run the kernel of a primitive: `vm.invoke_op(@exp, %x, %y)` fills %y.", InvokeOpAttrs
)
SHAPE_FUNC = _by_the_compiler(
    "vm.shape_func",
    ("function", "args*"),
    "The shapes of a primitive's results: `vm.shape_func(@exp, %x)` is a tuple of int64 vectors on the host.",
)
SHAPE_OF = _by_the_compiler("vm.shape_of", ("data",), "The shape of a tensor: an int64 vector on the host.")
RESHAPE_TENSOR = _by_the_compiler("vm.reshape_tensor", ("data", "shape"), "The same elements under another shape: a view.")
SLICE_TENSOR = _by_the_compiler(
    "vm.slice_tensor",
    ("data", "shape", "offset"),
    "Part of a tensor, a view: as many elements as a shape holds, from that element on whose number is the one of a vector.",
)
SIZES = _by_the_compiler(
    "vm.sizes",
    ("tensors*",),
    "Vectors on the host, a tuple of them, computed from the sizes of tensors by a shape program.",
    SizesAttrs,
)
TRIM = _by_the_compiler("vm.trim", ("data", "counts"), "The first rows of a tensor: a view, or a copy.", TrimAttrs)
