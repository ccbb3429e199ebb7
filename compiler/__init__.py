"""Layer 3: text to executable: language, IR, passes, emission, command line."""

from __future__ import annotations

from ..declarations.completion import completed_by


def _bind_methods() -> None:
    from .builder import ir_methods

    ir_methods.bind()


completed_by(f"{__name__}.ir", _bind_methods)
