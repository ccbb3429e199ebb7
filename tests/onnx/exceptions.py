"""Cases of ONNX's suite whose variants do not run, each with its reason."""

from __future__ import annotations

import re

#: Cases that need a constant: with the value as an input, the rank of a value is known nowhere.
NEED_CONSTANTS: dict[str, str] = {}

#: Patterns of cases and groups of axes at whose sizes the reference contradicts the standard.
REFERENCE_DIFFERS: dict[str, str] = {}


def reference_differs(name: str) -> str:
    """The reason why a case at other sizes is not compared; "" if it is."""
    return next((why for pattern, why in REFERENCE_DIFFERS.items() if re.fullmatch(pattern, name)), "")
