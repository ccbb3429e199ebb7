"""The text format: parser and printer."""

from __future__ import annotations

from .. import ir as ir  # first, since it imports modules of this package
