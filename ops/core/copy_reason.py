"""Reasons for copies between devices, as data: the kind of the reason and the operator that needs the copy."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import field

from ...declarations.frozen_dataclass import frozen
from .tensor_types import TensorType

#: Separator of several operators in one reason.
_SEPARATOR = ", "


class CopyKind(enum.Enum):
    """Kind of a copy, by the user that needs the value on another device.

    ``key`` is the name of the kind in texts and files.  ``template`` is the sentence of one reason.  ``meaning`` is a sentence
    about the kind.
    """

    FLAGGED = "flagged", "{op}: input '{input}' is data-dependent", "a shape function reads the values of this input"
    PER_OP = (
        "per-op",
        "{op}: input '{input}' is copied because another input is data-dependent (data_dependence=op)",
        "a shape function reads another input of the operator, and all its inputs are copied",
    )
    RELAY = (
        "relay",
        "{op}: input '{input}' is copied because Relay's flags ask for it (data_dependence=relay)",
        "the flags of Relay's last version ask for the values of this input; its shape function does not read them",
    )
    CONDITION = "condition", "if: the condition is read by the host", "the machine branches on the host"
    COUNT = "count", "{op}: the kernel reports the size of its result", "the size of a result is known once the kernel has run"
    INPUT = "input", "input of @{op}", "a kernel reads a value that is on another device"
    ARGUMENT = "argument", "argument of {op}", "a function takes its arguments on the device"
    RESULT = "result", "result of a function", "a function returns its result on the device"
    BRANCH = "branch", "result of an if", "an if has its value on the device"
    CLOSURE = "closure", "captured by a closure", "a closure captures values on the device"
    RECORD = "record", "stored in {op}", "a field has one device in all values of a constructor, and so have references of a type"
    ON_DEVICE = "on_device", "the program asks for it", "written in the program"

    def __init__(self, key: str, template: str, meaning: str) -> None:
        self.key, self.template, self.meaning = key, template, meaning

    @staticmethod
    def of(key: str) -> CopyKind:
        """The kind with this key.  Raises ValueError for an unknown key; the message lists the valid keys."""
        for kind in CopyKind:
            if kind.key == key:
                return kind
        raise ValueError(f"{key!r} is no kind of copy; there are {', '.join(k.key for k in CopyKind)}")


@frozen
class CopyReason:
    """Reason for one copy; ``str`` gives a sentence.

    ``op``: the operator (COUNT: operators), primitive (INPUT), function (ARGUMENT, with its ``@`` or ``%``) or record (RECORD:
    ``Cons of List[float32]``, or the type of a reference) that needs the value.  ``input``: the name of its input.  Both are ""
    if the kind needs no further detail.  ``type``: the type of the value, with portable dims (see ``size_expressions``); the
    compiler sets it when it emits the copy, and texts do not have it.
    """

    kind: CopyKind
    op: str = ""
    input: str = ""
    type: TensorType | None = field(default=None, metadata={"written": False})

    @staticmethod
    def count(operators: Iterable[str]) -> CopyReason:
        """The reason of a kernel's count that these operators report."""
        return CopyReason(CopyKind.COUNT, _SEPARATOR.join(operators))

    @property
    def operators(self) -> tuple[str, ...]:
        """The names in ``op``."""
        return tuple(self.op.split(_SEPARATOR))

    @property
    def text(self) -> str:
        """The reason as a sentence."""
        return self.kind.template.format(op=self.op, input=self.input)

    def __str__(self) -> str:
        return self.text
