"""Text of arithmetic on dims, in a choice of notations."""

from __future__ import annotations

from collections.abc import Callable

from ...declarations.frozen_dataclass import frozen
from .dim import POLY, Dim
from .int_operations import FLOORDIV, MAX, MIN, MOD, MUL

#: Infix operators, and operators in function notation; a sum (POLY) has its own rule.
SIGNS = {MUL: "*", FLOORDIV: "//", MOD: "%"}
FUNCTIONS = (MIN, MAX)


@frozen
class Notation:
    """Notation of arithmetic on dims.

    ``leaf``: the text of a leaf, such as a number or a symbol; it may raise.  ``times``: the separator of the factors of a term.
    ``subtracts``: whether negative terms follow the others and are subtracted (``n - 1``) instead of added (``n + -1``).
    """

    leaf: Callable[[Dim], str]
    times: str = "*"
    subtracts: bool = False

    def text(self, d: Dim) -> str:
        """``d`` as text.  Exceptions of ``leaf`` propagate."""
        if d.op == POLY:
            return self._sum(d)
        if d.op in SIGNS:
            return f" {SIGNS[d.op]} ".join(map(self._factor, d.args))
        if d.op in FUNCTIONS:
            return f"{d.op}({', '.join(map(self.text, d.args))})"
        return self.leaf(d)

    def _sum(self, d: Dim) -> str:
        if not self.subtracts:
            return " + ".join(self._term(c, atoms) for c, atoms in d.args)
        terms = sorted(d.args, key=lambda term: term[0] < 0)
        first = ("-" if terms[0][0] < 0 else "") + self._term(abs(terms[0][0]), terms[0][1])
        return first + "".join(f" {'-' if c < 0 else '+'} {self._term(abs(c), atoms)}" for c, atoms in terms[1:])

    def _term(self, coefficient: int, atoms: tuple[Dim, ...]) -> str:
        return self.times.join([*([str(coefficient)] if coefficient != 1 or not atoms else []), *map(self._factor, atoms)])

    def _factor(self, d: Dim) -> str:
        return f"({self.text(d)})" if d.op == POLY or d.op in SIGNS else self.text(d)
