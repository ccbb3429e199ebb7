"""Constructors, matches and references in the place of the machine's operators that ``Monomorphize`` makes of them.

let %match = if (%l is Cons) {              let %match = match (%l) {
  let %fields = vm.adt_fields(%l, ...);       Cons(_, _) => {
  %fields.0                                     let %fields = match? (%l) { Cons(%f0, %f1) => (%f0, %f1) };
} else {                                ->      %fields.0
  0f                                          },
};                                            _ => 0f
                                            };
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ....ops.core.op import Op
from ....ops.defs.machine.adt_ops import ADT_FIELDS, MAKE_ADT, MAKE_REF, NO_MATCH, READ_REF, WRITE_REF
from ...ir.expr import Call, Constructor, Expr, If, Tuple, TypeData, Var, replace
from ...ir.match_expr import (
    Clause,
    Match,
    Pattern,
    PatternConstructor,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
)

_REFERENCES: Mapping[Op, Callable[..., Expr]] = {MAKE_REF: RefCreate, READ_REF: RefRead, WRITE_REF: RefWrite}


class Raising:
    """The expressions of the language for values of bindings, with the constructors of some type definitions."""

    def __init__(self, definitions: Mapping[str, TypeData]) -> None:
        self._only = {data.constructors[0].name for data in definitions.values() if len(data.constructors) == 1}
        self.constructors = {c.name: c for data in definitions.values() for c in data.constructors}

    def value(self, value: Expr) -> Expr:
        """The value of a binding without the machine's operators on records; its type is to be inferred."""
        match value:
            case If(constructor=str(name)) if name:
                return self._match(value, self.constructors[name])
            case Call(op=Op() as op) if op in _REFERENCES:
                return _REFERENCES[op](*value.args, span=value.span)
            case Call(op=Op() as op) if op is MAKE_ADT:
                return Call(self.constructors[value.attrs.constructor], value.args, span=value.span)
            case Call(op=Op() as op) if op is ADT_FIELDS:
                return self._fields(value.args[0], self.constructors[value.attrs.constructor])
            case Call(op=Op() as op) if op is NO_MATCH:
                return Match(Tuple(()), (), complete=False, span=value.span)
        return value if isinstance(value, Var) else replace(value, ty=None)

    def _match(self, value: If, constructor: Constructor) -> Match:
        wildcards = tuple(PatternWildcard() for _ in constructor.inputs)
        first: Pattern = PatternConstructor(constructor, wildcards, span=value.span)
        others = () if constructor.name in self._only else (Clause(PatternWildcard(), value.false_branch),)
        return Match(value.cond, (Clause(first, value.true_branch), *others), span=value.span)

    def _fields(self, data: Expr, constructor: Constructor) -> Match:
        fields = tuple(Var(f"field{k}", span=data.span) for k in range(len(constructor.inputs)))
        pattern = PatternConstructor(constructor, tuple(PatternVar(field) for field in fields), span=data.span)
        return Match(data, (Clause(pattern, Tuple(fields, span=data.span)),), complete=False, span=data.span)
