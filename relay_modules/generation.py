"""``relay.generation``: decoders in a loop inside the machine."""

from __future__ import annotations

from .compiler.generation.loop import loop
from .compiler.generation.text_writer import TextWriter

__all__ = ["TextWriter", "loop"]
