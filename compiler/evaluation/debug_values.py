"""Values of the evaluator that Python has no type for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Reference:
    """A reference and the value that it holds now."""

    value: Any
