"""The IR: expressions, A-normal form, traversal, analyses of modules.

The package ``compiler`` says what binds the methods of nodes that print, parse and build.
"""

from __future__ import annotations

from ...declarations.completion import complete

complete(__name__)
