"""Kinds of operands: text, table, limits, and the role of an operand in the effect of its instruction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from ...declarations.frozen_dataclass import frozen
from ...ops.core.effect import Role as Role
from ...ops.core.tensor_types import DTYPES


@frozen
class Kind:
    """Kind of an operand: its text, its table and its limits.

    ``show``: formats the number.  ``table``: the table that the number indexes (``register``, ``function``, ``packed``,
    ``shape_func``, ``const``, ``dtype``, ``device``, ``reason``; ``code`` for a jump) or None.  ``access``: ``read``, ``take``
    (read and emptied), ``write`` or ``kill`` for registers.  ``many``: whether the operand is a list.  ``holds``: the kind of
    object that a register must hold when read, or holds when written: ``tensor``, ``storage``, ``record`` (a tuple or
    constructor), ``closure``, ``value`` (any of these but a storage), ``any`` (a value or a storage), or ``pending`` (a copy that
    was begun; it is neither value nor storage).  ``low``, ``high``: the smallest and the largest number allowed.  ``role``: the
    role of the operand; a field may have another one (``Annotated[TensorSrc, Role.WHOLE]``).
    """

    name: str
    show: Callable[[int], str] = str
    table: str | None = None
    access: str | None = None
    many: bool = False
    holds: str = "any"
    low: int | None = None
    high: int | None = None
    role: Role | None = None


def _register(n: int) -> str:
    return f"${n}"


def _dtype(n: int) -> str:
    return DTYPES[n] if 0 <= n < len(DTYPES) else f"dtype[{n}]"


def _to(holds: str, many: bool = False) -> Kind:
    return Kind("dsts" if many else "dst", _register, "register", "write", many, holds)


def _from(holds: str, many: bool = False, role: Role | None = None) -> Kind:
    return Kind("srcs" if many else "src", _register, "register", "read", many, holds, role=role)


Dst = Annotated[int, _to("value")]
AnyDst = Annotated[int, _to("any")]
TensorDst = Annotated[int, _to("tensor")]
TensorDsts = Annotated[tuple[int, ...], _to("tensor", many=True)]
StorageDst = Annotated[int, _to("storage")]
RecordDst = Annotated[int, _to("record")]
ClosureDst = Annotated[int, _to("closure")]
PendingDst = Annotated[int, _to("pending")]
Src = Annotated[int, _from("value")]
Srcs = Annotated[tuple[int, ...], _from("value", many=True)]
AnySrc = Annotated[int, _from("any")]
TensorSrc = Annotated[int, _from("tensor")]
TensorSrcs = Annotated[tuple[int, ...], _from("tensor", many=True)]
ShapeSrc = Annotated[int, _from("tensor", role=Role.SHAPE)]
StorageSrc = Annotated[int, _from("storage", role=Role.STORAGE)]
RecordSrc = Annotated[int, _from("record")]
ClosureSrc = Annotated[int, _from("closure")]
PendingSrc = Annotated[int, Kind("src", _register, "register", "take", holds="pending", role=Role.PENDING)]
Dead = Annotated[tuple[int, ...], Kind("dead", _register, "register", "kill", many=True)]
Int = Annotated[int, Kind("int")]
Imm = Annotated[int, Kind("imm", low=0)]
Flag = Annotated[int, Kind("flag", low=0, high=1)]
Imms = Annotated[tuple[int, ...], Kind("imms", many=True, low=0)]
Func = Annotated[int, Kind("func", "function[{}]".format, "function", role=Role.CALLEE)]
Packed = Annotated[int, Kind("packed", "packed[{}]".format, "packed", role=Role.KERNEL)]
ShapeFn = Annotated[int, Kind("shape_func", "shape_func[{}]".format, "shape_func", role=Role.SHAPE_FUNC)]
Const = Annotated[int, Kind("const", "const[{}]".format, "const", role=Role.CONST)]
DType = Annotated[int, Kind("dtype", _dtype, "dtype", role=Role.DTYPE)]
Device = Annotated[int, Kind("device", "device[{}]".format, "device", role=Role.DEVICE)]
Reason = Annotated[int, Kind("reason", "reason[{}]".format, "reason", role=Role.REASON)]
#: Jumps, in words from the start of the jumping instruction; a Label until assembled.  A Forward jump is always positive.
Offset = Annotated[Any, Kind("offset", "{:+d}".format, "code")]
Forward = Annotated[Any, Kind("forward", "{:+d}".format, "code", low=1)]
