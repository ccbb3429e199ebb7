"""Layer 3: text to executable: language, IR, passes, emission, command line."""

from __future__ import annotations

from .builder import ir_methods

ir_methods.bind()
