"""Cases of ONNX's suite whose variants do not run, each with its reason."""

from __future__ import annotations

import re

_BODY = "the rank of a tensor in the body is declared nowhere: the number of elements of an input decides it"

#: Cases that need declared sizes.
NEED_SIZES = {"test_affine_grid_3d_expanded": _BODY}

#: Cases that need a constant: with the value as an input, the rank of a value is known nowhere.
NEED_CONSTANTS = {"test_affine_grid_3d_expanded": _BODY}

#: Patterns of cases and groups of axes at whose sizes the reference contradicts the standard.
REFERENCE_DIFFERS: dict[str, str] = {}


def reference_differs(name: str) -> str:
    """The reason why a case at other sizes is not compared; "" if it is."""
    return next((why for pattern, why in REFERENCE_DIFFERS.items() if re.fullmatch(pattern, name)), "")
