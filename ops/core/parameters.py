"""Parameters of an operator's Python function, where they differ from the operator's inputs followed by its attributes.

    python=Parameters.of("data", "pad_width", Parameter("pad_value", 0, dtype="data"), "pad_mode")

The order, names and defaults are those of Relay's Python interface.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any

from ...declarations.frozen_dataclass import frozen


class Default(enum.Enum):
    """The default of a parameter that declares no value.  ``OWN``: an attribute's is that of its class, an input is required.
    ``REQUIRED``: the parameter must be given."""

    OWN = "own"
    REQUIRED = "required"


@frozen
class Parameter:
    """One parameter.

    ``name``: an input, an attribute, or a name that ``Parameters.call`` reads.  ``default``: its value if it is not given.
    ``dtype``: dtype of a Python number given for an input: a dtype, or the name of an input or attribute that has the dtype.
    """

    name: str
    default: Any = Default.OWN
    dtype: str = ""


#: ``given -> (operator, inputs and attributes by name)``; ``given``: every parameter that is given or has a default.  Raises
#: TypeRelError.
ToCall = Callable[[Mapping[str, Any]], tuple[str, Mapping[str, Any]]]


@frozen
class Parameters:
    """All parameters in order; ``call``: the called operator and its arguments, None for the operator of the same names."""

    listed: tuple[Parameter, ...]
    call: ToCall | None = None

    @classmethod
    def of(cls, *listed: str | Parameter, call: ToCall | None = None) -> Parameters:
        """Parameters from names and declarations."""
        return cls(tuple(p if isinstance(p, Parameter) else Parameter(p) for p in listed), call)
