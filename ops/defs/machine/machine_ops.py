"""Operators that are instructions of the virtual machine: inserted into the IR by the compiler, not written in programs."""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...core.copy_reason import CopyKind, CopyReason
from ...core.effect import Effect, Result, Role
from ...core.op import NoAttrs, Op, OpPattern, TypeRelError


def _first(dtypes: tuple[Any, ...], attrs: Any) -> Any:
    return dtypes[0]


# ---- inserted by type inference ----------------------------------------------------------------------------------


@frozen
class AssertShapeAttrs:
    """``dims``: per axis the required size, or -1 for any."""

    dims: tuple[int, ...]


@frozen
class AssertSameSizeAttrs:
    """``axis``, ``other_axis``: the compared axes of the two tensors; ``message``: format string of the error, with two ``{}``
    for the sizes."""

    axis: int
    other_axis: int
    message: str = "two sizes must be equal, but are {} and {}"


ASSERT_SHAPE = Op(
    name="vm.assert_shape",
    doc="The input, after a check that every axis has the required size; else status SHAPE_CHECK.",
    inputs=("data",),
    attrs=AssertShapeAttrs,
    pattern=OpPattern.MACHINE,
    dtype=_first,
    stateful=True,
    effect=Effect((Role.ALIASED,)),
)
ASSERT_SAME_SIZE = Op(
    name="vm.assert_same_size",
    doc="``data``, after a check that its axis ``axis`` has the size of axis ``other_axis`` of ``other``; else SHAPE_CHECK.",
    inputs=("data", "other"),
    attrs=AssertSameSizeAttrs,
    pattern=OpPattern.MACHINE,
    dtype=_first,
    stateful=True,
    effect=Effect((Role.ALIASED, None)),
)

# ---- inserted by lambda lifting ------------------------------------------------------------------------------------

ALLOC_CLOSURE = Op(
    name="vm.alloc_closure",
    doc="A closure of a global function: `vm.alloc_closure(@f, %captured, ...)`; a call passes the captured values first.",
    inputs=("function", "captured*"),
    pattern=OpPattern.MACHINE,
    dtype=_first,
    effect=Effect((Role.BODY, Role.CAPTURED), Result.CLOSURE),
)

# ---- inserted by device placement, or written in the program -------------------------------------------------------


#: Reason of a copy that is written in the program.
ASKED_FOR = CopyReason(CopyKind.ON_DEVICE)


@frozen
class OnDeviceAttrs:
    """``device``: the host or the target."""

    device: str


ON_DEVICE = Op(
    name="on_device",
    doc='The input, computed on a device: `on_device(%x, device="cpu")`.',
    inputs=("data",),
    attrs=OnDeviceAttrs,
    pattern=OpPattern.MACHINE,
    dtype=_first,
)

STOP_FUSION = Op(
    name="annotation.stop_fusion",
    doc="The input: its kernel computes nothing that follows, `exp(annotation.stop_fusion(tanh(%x)))` has two kernels.",
    inputs=("data",),
    pattern=OpPattern.MACHINE,
    dtype=_first,
)

# ---- inserted by manifest_alloc and manifest_lifetimes -------------------------------------------------------------


@frozen
class AllocStorageAttrs:
    """A storage of ``nbytes`` bytes on ``device``; ``why``: the memory plan's reason against storage reuse, if any."""

    nbytes: int
    device: str = "cpu"
    why: str = ""


@frozen
class AllocTensorAttrs:
    """A view of ``shape`` and ``dtype``, ``offset`` bytes into the storage."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    offset: int = 0


@frozen
class AllocStorageRegAttrs:
    """A storage for a tensor of ``dtype`` on ``device``; ``why`` as in AllocStorageAttrs."""

    dtype: str = "float32"
    device: str = "cpu"
    why: str = ""


@frozen
class TakeStorageAttrs:
    """``device``: the device of the storage."""

    device: str = "cpu"


@frozen
class AllocTensorRegAttrs:
    """A view of ``dtype``, ``offset`` bytes into the storage."""

    dtype: str = "float32"
    offset: int = 0


@frozen
class LoadConstAttrs:
    """``device``: the device of the constant."""

    device: str = "cpu"


@frozen
class DeviceCopyAttrs:
    """A copy from ``src`` to ``dst`` and its reason."""

    src: str
    dst: str
    reason: CopyReason = ASKED_FOR


@frozen
class TrimAttrs:
    """The index in the counts.  ``release``: whether to shrink the upper bound: copy the rows to a new storage if it pays."""

    index: int = 0
    release: bool = False


@frozen
class SizesAttrs:
    """A program as in ShapeProgram: the loads from the tensors, the operations, and the slots of each result vector."""

    loads: tuple[tuple[int, int, int], ...]
    rows: tuple[tuple[int, int, int, int], ...]
    outputs: tuple[tuple[int, ...], ...]


@frozen
class InvokeOpAttrs:
    """The number of output arguments, which come last; ``workspace``: whether the last one is a workspace instead of a result."""

    n_outputs: int = 1
    workspace: bool = False


def _by_the_compiler(name: str, inputs: tuple[str, ...], doc: str, effect: Effect, attrs: type = NoAttrs) -> Op:
    """Declare a machine operator without a type rule: it is inserted after type inference."""

    def rule(dtypes: tuple[Any, ...], attrs: Any) -> str:
        raise TypeRelError(f"{name} is put in by the compiler after type inference; a program cannot call it")

    return Op(name=name, doc=doc, inputs=inputs, attrs=attrs, pattern=OpPattern.MACHINE, dtype=rule, stateful=True, effect=effect)


ALLOC_STORAGE = _by_the_compiler(
    "memory.alloc_storage", (), "Storage of a size known at compile time.", Effect((), Result.STORAGE), AllocStorageAttrs
)
ALLOC_TENSOR = _by_the_compiler(
    "memory.alloc_tensor", ("storage",), "A tensor of a known shape in a storage.", Effect((Role.STORAGE,)), AllocTensorAttrs
)
ALLOC_STORAGE_REG = _by_the_compiler(
    "memory.alloc_storage_reg",
    ("shape",),
    "Storage for a tensor whose shape is a vector on the host.",
    Effect((Role.SHAPE,), Result.STORAGE),
    AllocStorageRegAttrs,
)
ALLOC_TENSOR_REG = _by_the_compiler(
    "memory.alloc_tensor_reg",
    ("storage", "shape"),
    "A tensor whose shape is a vector on the host.",
    Effect((Role.STORAGE, Role.SHAPE)),
    AllocTensorRegAttrs,
)
TAKE_STORAGE = _by_the_compiler(
    "memory.take_storage",
    ("data",),
    "Storage for as many bytes as a tensor has: the tensor's own if nothing else refers to it, for who writes over it.",
    Effect((Role.DONOR,), Result.STORAGE),
    TakeStorageAttrs,
)
KILL = _by_the_compiler(
    "memory.kill", ("values*",), "These values are not used again: `memory.kill(%x, %y)`.", Effect((None,), Result.NOTHING)
)
LOAD_CONST = _by_the_compiler("vm.load_const", ("constant",), "A constant on a device.", Effect((Role.CONST,)), LoadConstAttrs)
DEVICE_COPY = Op(
    name="device_copy",
    doc='A copy of a tensor on another device: `device_copy(%x, src="sim", dst="cpu")`.  A program may ask for one.',
    inputs=("data",),
    attrs=DeviceCopyAttrs,
    pattern=OpPattern.MACHINE,
    dtype=_first,
    stateful=True,
    effect=Effect((Role.COPIED,)),
)
COPY_BEGIN = _by_the_compiler(
    "vm.copy_begin",
    ("data",),
    'A copy to the host that is asked for, not waited for: `vm.copy_wait(vm.copy_begin(%x, src="sim", dst="cpu"))`.',
    Effect((Role.COPIED,), Result.PENDING),
    DeviceCopyAttrs,
)
COPY_WAIT = _by_the_compiler(
    "vm.copy_wait", ("pending",), "The tensor on the host that `vm.copy_begin` makes.", Effect((Role.PENDING,))
)
INVOKE_OP = _by_the_compiler(
    "vm.invoke_op",
    ("function", "args*"),
    "Run the kernel of a primitive: `vm.invoke_op(@exp, %x, %y)` fills %y.",
    Effect((Role.KERNEL, Role.ARGS), Result.NOTHING),
    InvokeOpAttrs,
)
SHAPE_FUNC = _by_the_compiler(
    "vm.shape_func",
    ("function", "args*"),
    "The shapes of a primitive's results: `vm.shape_func(@exp, %x)` is a tuple of int64 vectors on the host.",
    Effect((Role.SHAPE_FUNC, Role.ARGS), Result.VECTORS),
)
SHAPE_OF = _by_the_compiler(
    "vm.shape_of", ("data",), "The shape of a tensor: an int64 vector on the host.", Effect((Role.SIZED,))
)
RESHAPE_TENSOR = _by_the_compiler(
    "vm.reshape_tensor", ("data", "shape"), "The same elements under another shape: a view.", Effect((Role.ALIASED, Role.SHAPE))
)
SLICE_TENSOR = _by_the_compiler(
    "vm.slice_tensor",
    ("data", "shape", "offset"),
    "Part of a tensor, a view: as many elements as a shape holds, from that element on whose number is the one of a vector.",
    Effect((Role.WHOLE, Role.SHAPE, None)),
)
SIZES = _by_the_compiler(
    "vm.sizes",
    ("tensors*",),
    "Vectors on the host, a tuple of them, computed from the sizes of tensors by a shape program.",
    Effect((Role.SIZED,), Result.VECTORS),
    SizesAttrs,
)
TRIM = _by_the_compiler(
    "vm.trim",
    ("data", "counts"),
    "The first rows of a tensor: a view, or a copy.",
    Effect((Role.ALIASED, None), moves=True),
    TrimAttrs,
)
