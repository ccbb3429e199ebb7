"""Comments that the printer adds to lines: types, places, texts of the user's function."""

from __future__ import annotations

from collections.abc import Callable

from ...declarations.frozen_dataclass import frozen
from ...vm.diagnostics.argument_errors import wrong
from ..ir.expr import Expr

#: The text of an expression's comment; empty for none.
Annotate = Callable[[Expr], str]


@frozen
class Comments:
    """The comments of a text.

    ``types``: ``/* ty=float32 */`` where a type is inferred; ``spans``: ``/* span=model.relay:3:5 */``; ``annotate``: the text of
    a comment, with or without ``/*``.
    """

    types: bool = False
    spans: bool = False
    annotate: Annotate | None = None

    def of(self, expr: Expr) -> str:
        """The comment after an expression, with a blank before it; empty for none.  Raises ArgumentError."""
        words = [f"ty={expr.ty}"] if self.types and expr.ty is not None else []
        if self.spans and expr.span is not None:
            words.append(f"span={_inside(expr.span.place)}")
        out = f" /* {' '.join(words)} */" if words else ""
        return out + self._annotated(expr) if self.annotate is not None else out

    def _annotated(self, expr: Expr) -> str:
        assert self.annotate is not None
        text = self.annotate(expr)
        if not isinstance(text, str):
            raise wrong("astext: the result of annotate", "the text of a comment", text)
        text = text.strip()
        if text.startswith("/*") and text.endswith("*/") and len(text) >= 4:
            text = text[2:-2].strip()
        return f" /* {_inside(text)} */" if text else ""


def _inside(text: str) -> str:
    """The text without marks that would begin or end a comment."""
    return text.replace("*/", "* /").replace("/*", "/ *")
