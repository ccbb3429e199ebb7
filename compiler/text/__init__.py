"""The text format: parser and printer."""

from __future__ import annotations

from .. import ir as ir  # first, since its completion imports modules of this package
