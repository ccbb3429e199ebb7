"""The prologue of a kernel: the sizes that its loops need, computed from the shapes of its tensors."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod

from ....shape_funcs.symbolic.dim import ELEMENT, UNKNOWNS, Dim, const, postorder
from ...core.group import Group
from .expression_text import Language


class Sizes(ABC):
    """Names of sizes, and ``prologue``: the statements that define them, each once."""

    def __init__(self, group: Group, language: Language) -> None:
        self.group, self.language = group, language
        self.prologue: list[str] = []
        self.tensors = [*group.params, *(group.values()[r] for r in group.results)]
        self._names: dict[object, str] = {}
        # a size is read from the first tensor that has it
        self._sizes = {d: (k, a) for k, t in reversed(list(enumerate(self.tensors))) for a, d in enumerate(t.shape)}

    @abstractmethod
    def axis(self, position: int, axis: int) -> str:
        """The size of an axis of the tensor at ``position``."""

    @abstractmethod
    def element(self, position: int, number: int) -> str:
        """An element of the parameter at ``position``: float64 for a float, else int64."""

    @abstractmethod
    def define(self, name: str, text: str) -> str:
        """The statement that defines a name."""

    def once(self, what: object, prefix: str, text: str) -> str:
        """The name, beginning with ``prefix``, of the value of ``text``; ``what`` is the key."""
        if what not in self._names:
            self._names[what] = f"{prefix}{sum(n.startswith(prefix) for n in self._names.values())}"
            self.prologue.append(self.define(self._names[what], text))
        return self._names[what]

    def size(self, dim: Dim) -> str:
        """A size, or an expression over sizes and run-time values."""
        known = const(dim)
        if known is not None:
            return str(known)
        if dim not in self._names:
            for d in postorder([dim], self._sizes):
                if const(d) is None and d not in self._names:
                    self.once(d, "s", self._size_text(d))
        return self._names[dim]

    def _size_text(self, d: Dim) -> str:
        if d in self._sizes:
            return self.axis(*self._sizes[d])
        if d.op == ELEMENT:
            return self.element(*d.args)
        assert d.op not in UNKNOWNS, f"unknown size {d}"
        if d.op == "poly":
            terms = [[*([] if c == 1 and atoms else [str(c)]), *map(self.size, atoms)] for c, atoms in d.args]
            return " + ".join(map(" * ".join, terms))
        floats = {"arange_length": (0, 1, 2), "scaled": (1,)}.get(d.op, ())
        return self.language.size(d.op, [self._float(a) if k in floats else self.size(a) for k, a in enumerate(d.args)])

    def _float(self, d: Dim) -> str:
        """A float64 that dims hold as its bit pattern."""
        bits = const(d)
        if bits is None:
            return self._names[d]
        return self.language.literal(struct.unpack("<d", struct.pack("<q", bits))[0], "float64")
