"""Operators on values of algebraic data types and on references, inserted where matches and constructors are lowered.

The ADT of a value is named by text (``adt="List[float32]"``), as its definition belongs to the module.
"""

from __future__ import annotations

from typing import Any

from ....declarations.frozen_dataclass import frozen
from ...core.effect import Effect, Result, Role
from ...core.op import Op, OpPattern


@frozen
class MakeAdtAttrs:
    """``adt``: the type of the result, as text; ``constructor``: the name of its constructor; ``devices`` as AdtFieldsAttrs."""

    adt: str
    constructor: str
    devices: tuple[str, ...] = ()


@frozen
class AdtFieldsAttrs:
    """``constructor``: the constructor that made the value.  ``devices``: the device of each tensor in the fields, in order (see
    ``own_tensors``); () if all are on the target."""

    constructor: str
    devices: tuple[str, ...] = ()


@frozen
class RefAttrs:
    """``devices``: the device of each tensor in the value of the reference, as AdtFieldsAttrs."""

    devices: tuple[str, ...] = ()


@frozen
class NoMatchAttrs:
    """``result``: the type of the match, as text."""

    result: str


def _declare(name: str, inputs: tuple[str, ...], doc: str, effect: Effect, attrs: Any = None, stateful: bool = False) -> Op:
    given = {} if attrs is None else {"attrs": attrs}
    return Op(
        name=name,
        doc=doc,
        inputs=inputs,
        pattern=OpPattern.MACHINE,
        dtype=lambda dtypes, attrs: dtypes[0],
        effect=effect,
        stateful=stateful,
        **given,
    )


MAKE_ADT = _declare(
    "vm.make_adt",
    ("fields*",),
    "A value of an ADT: the constructor's fields and its tag.",
    Effect((Role.CAPTURED,)),
    MakeAdtAttrs,
)
ADT_FIELDS = _declare(
    "vm.adt_fields",
    ("data",),
    "The fields of a value that a constructor made, as a tuple: the same object.",
    Effect((Role.ALIASED,)),
    AdtFieldsAttrs,
)
NO_MATCH = _declare(
    "vm.no_match", (), "Stop the run: no clause of a match applies.", Effect((), Result.TENSOR), NoMatchAttrs, stateful=True
)
MAKE_REF = _declare("vm.make_ref", ("value",), "A new reference to a value.", Effect((Role.CAPTURED,)), RefAttrs, stateful=True)
READ_REF = _declare("vm.read_ref", ("reference",), "The value that a reference holds.", Effect((None,)), RefAttrs, stateful=True)
WRITE_REF = _declare(
    "vm.write_ref",
    ("reference", "value"),
    "Store a value in a reference; the result is an empty tuple.",
    Effect((None, Role.STORED)),
    RefAttrs,
    stateful=True,
)

#: The operators of this file.  A tensor in a field or a reference is on the device that ``attrs.devices`` gives.
RECORD_OPERATORS = frozenset([MAKE_ADT, ADT_FIELDS, NO_MATCH, MAKE_REF, READ_REF, WRITE_REF])
