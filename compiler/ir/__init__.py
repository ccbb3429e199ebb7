"""The IR: expressions, A-normal form, traversal, analyses of modules."""

from __future__ import annotations

from ..builder import ir_methods

ir_methods.bind()
