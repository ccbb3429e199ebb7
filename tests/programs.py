"""Programs of tests in Relay's text format."""

from __future__ import annotations

#: First line of every program.
HEADER = '#[version = "0.0.5"]\n'
