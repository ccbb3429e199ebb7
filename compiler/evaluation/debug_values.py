"""Values of the evaluator that Python has no type for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class RefValue:
    """A reference and the value that it holds now.  As an argument it is another reference to its value then."""

    value: Any
