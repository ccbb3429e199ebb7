"""The Python API of the language: node constructors and operator functions under Relay's names."""

from __future__ import annotations

from .. import ir as ir  # first, since its completion imports modules of this package
