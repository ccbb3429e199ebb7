"""Arguments of a call, the slow way: anything that people pass, checked, and what does not fit said in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..ops.native.status import RESULT_LOST, STATUS
from ..ops.ty import TensorType, TupleType, Type
from . import codes
from .executable import DEVICES
from .signature import Fitting, as_array
from .sim import is_lost
from .source import VMError
from .sync_reason import SyncReason
from .tensor import Tensor

if TYPE_CHECKING:
    from .machine import VirtualMachine


def prepare(machine: VirtualMachine, fitting: Fitting, name: str, ty: Type, value: Any, device: int) -> Any:
    """The argument as an array, a tensor of this machine, or a tuple of these, checked against its type.

    One that is taken on the host is on the host.
    """
    if isinstance(ty, TupleType):
        fields = tuple(value) if issubclass(type(value), (tuple, list)) else None
        if fields is None or len(fields) != len(ty.fields):
            what = f"{len(fields)} values" if fields is not None else type(value).__name__
            raise VMError(
                f"@{fitting.function.name}: %{name} takes {len(ty.fields)} values in a tuple, not {what}", code=codes.Input.TYPE
            )
        return tuple(
            prepare(machine, fitting, f"{name}.{i}", t, v, device) for i, (t, v) in enumerate(zip(ty.fields, fields, strict=True))
        )
    if not isinstance(ty, TensorType):
        raise VMError(f"@{fitting.function.name} takes a function as %{name}: only the program itself can call it")
    if type(value) is Tensor:
        fitting.check(name, ty, value.shape, value.dtype.name)
        if value._vm is machine and value.device in (machine.device, "cpu"):
            if is_lost(value._address):
                raise lost(value)
            return value if device else _on_host(value)
        value = value.numpy()
    if device and machine._session is not None and machine._session.holds(value):
        there = machine._session.borrow(value)
        fitting.check(name, ty, there.shape, there.dtype)
        return there
    array = as_array(name, value, ty.dtype)
    fitting.check(name, ty, array.shape, array.dtype.name)
    return array


def _on_host(tensor: Tensor) -> Tensor:
    return tensor if tensor.device == DEVICES[0] else tensor._vm._to_host(tensor, SyncReason.PASSED_ON)


def lost(tensor: Tensor) -> VMError:
    """The error for a result whose work was dropped."""
    error = VMError(
        f"{tensor}: {STATUS[RESULT_LOST]}",
        help="run the program again; the failure itself was raised before",
        code=codes.of_status(RESULT_LOST),
    )
    error.status = RESULT_LOST
    return error
