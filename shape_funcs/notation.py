"""Arithmetic on dims as text: one walk over an expression, in the notation of whoever reads it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .dims import FLOORDIV, MAX, MIN, MOD, MUL, POLY, Dim

#: What is written between two operands, and what as a function of two; a sum (POLY) is neither.
SIGNS = {MUL: "*", FLOORDIV: "//", MOD: "%"}
FUNCTIONS = (MIN, MAX)


@dataclass(frozen=True)
class Notation:
    """How arithmetic on dims is written.

    ``leaf``: the text of what is none, a number, a name or anything else; it may raise.  ``times`` stands between the factors
    of a term.  ``subtracts``: is a negative term taken away, behind the others (``n - 1``), rather than added (``n + -1``)?
    """

    leaf: Callable[[Dim], str]
    times: str = "*"
    subtracts: bool = False

    def text(self, d: Dim) -> str:
        """``d`` as text.  Raises what ``leaf`` raises."""
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
