"""Lower a match to tests of constructors.

    match (%l) {                        if (%l is Cons) {
      Cons(%h, _) => { %h },              let %fields = vm.adt_fields(%l, constructor="Cons");
      Nil => { 0 },              ->       let %h = %fields.0;
    }                                     %h
                                        } else {
                                          0
                                        }

A right side that several leaves of the decision tree share becomes a function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from ...ops.core.tensor_types import Type
from ...ops.defs.machine.adt_ops import ADT_FIELDS, NO_MATCH, AdtFieldsAttrs, NoMatchAttrs
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic
from ..ir.anf import Names
from ..ir.expr import Call, Expr, Function, If, TupleGetItem, TypeData, Var, let_chain, make_lets
from ..ir.match_expr import Match, Pattern, PatternConstructor, PatternWildcard, pattern_parts, pattern_vars
from .decision_tree import Failure, Leaf, Test, Tree, Value, decision_tree, failures, leaves

#: ``(chain, env) -> chain``: a right side over the values that its pattern's variables are bound to.
RightSide = Callable[[Expr, Mapping[Expr, Expr]], Expr]
_Bindings = list[tuple[Var, Expr]]


class MatchLowering:
    """The lowering of one match, whose right sides ``right_side`` rewrites.

    ``result``: the type of the match.  ``type_of``: the type of a pattern's variable.
    """

    def __init__(
        self,
        match: Match,
        data: Expr,
        result: Type,
        type_of: Callable[[Var], Type | None],
        right_side: RightSide,
        definition: Callable[[str], TypeData | None],
        names: Names,
    ) -> None:
        self.match, self.data, self.result, self.type_of = match, data, result, type_of
        self.right_side, self.names = right_side, names
        self.root = Value()
        self.tree = decision_tree(match, self.root, definition)
        self.shared: dict[int, Var] = {}

    def missing(self) -> Diagnostic | None:
        """The diagnostic of a complete match that does not cover every value."""
        found = failures(self.tree)
        if not found or not self.match.complete:
            return None
        message = f"the match does not cover every value: {_text(found[0].cases[0])} has no clause"
        help = "add a clause for it, or write `match?` if there is never such a value"
        return Diagnostic(message, self.match.span, help=help, code=codes.Type.MATCH)

    def lower(self, out: _Bindings, env: Mapping[Expr, Expr]) -> Expr:
        """The value of the match; shared right sides are bound in ``out`` before it."""
        uses = Counter(t.clause for t in leaves(self.tree) if isinstance(t, Leaf))
        for clause, count in uses.items():
            if count > 1:
                self.shared[clause] = self._share(clause, out, env)
        value = self._value(self.tree, {self.root: self.data}, {}, env, out)
        if not isinstance(self.tree, Leaf):
            return value
        bindings, result = let_chain(value)  # an irrefutable pattern
        out += bindings
        return result

    def _share(self, clause: int, out: _Bindings, env: Mapping[Expr, Expr]) -> Var:
        """Bind the right side of a clause as a function of its pattern's variables."""
        old = list(pattern_vars(self.match.clauses[clause].lhs))
        params = tuple(replace(v, name=self.names(v.name), annotation=self.type_of(v)) for v in old)
        body = self.right_side(self.match.clauses[clause].rhs, {**env, **dict(zip(old, params, strict=True))})
        var = Var(self.names("clause"), span=self.match.span)
        out.append((var, Function(params, body, span=self.match.span)))
        return var

    def _value(
        self, tree: Tree, atoms: dict[Value, Expr], fields: dict[Value, Expr], env: Mapping[Expr, Expr], out: _Bindings
    ) -> Expr:
        """The value of a tree.  ``atoms``: the variables of values; ``fields``: the variables of their tuples of fields."""
        span = self.match.span
        if isinstance(tree, Test):
            cond = self._atom(tree.value, atoms, fields, out)
            then, other = (self._chain(t, atoms, fields, env) for t in (tree.made, tree.other))
            return If(cond, then, other, tree.constructor, span=span)
        if isinstance(tree, Failure):
            return Call(NO_MATCH, (), NoMatchAttrs(str(self.result)), span=span)
        bound: dict[Expr, Expr] = {var: self._atom(value, atoms, fields, out) for var, value in tree.bound}
        if tree.clause in self.shared:
            order = pattern_vars(self.match.clauses[tree.clause].lhs)
            return Call(self.shared[tree.clause], tuple(bound[v] for v in order), span=span)
        return self.right_side(self.match.clauses[tree.clause].rhs, {**env, **bound})

    def _chain(self, tree: Tree, atoms: dict[Value, Expr], fields: dict[Value, Expr], env: Mapping[Expr, Expr]) -> Expr:
        out: _Bindings = []
        value = self._value(tree, dict(atoms), dict(fields), env, out)
        if isinstance(tree, Leaf) and tree.clause not in self.shared:
            return make_lets(out, value)  # a chain already
        var = Var(self.names("match"), span=self.match.span)
        return make_lets([*out, (var, value)], var)

    def _atom(self, value: Value, atoms: dict[Value, Expr], fields: dict[Value, Expr], out: _Bindings) -> Expr:
        """The variable of a value, bound where it is first needed."""
        missing = []
        while value not in atoms:
            missing.append(value)
            assert value.whole is not None
            value = value.whole
        for part in reversed(missing):
            assert part.whole is not None
            whole = atoms[part.whole]
            if part.constructor:
                if part.whole not in fields:
                    call = Call(ADT_FIELDS, (whole,), AdtFieldsAttrs(part.constructor), span=self.match.span)
                    made = fields[part.whole] = Var(self.names("fields"), span=self.match.span)
                    out.append((made, call))
                whole = fields[part.whole]
            var = Var(self.names(part.name), span=self.match.span)
            out.append((var, TupleGetItem(whole, part.index, span=self.match.span)))
            atoms[part] = var
        return atoms[missing[0] if missing else value]


def _text(pattern: Pattern) -> str:
    """The text of a pattern without variables."""
    if isinstance(pattern, PatternWildcard):
        return "_"
    name = pattern.constructor.name_hint if isinstance(pattern, PatternConstructor) else ""
    fields = ", ".join(map(_text, pattern_parts(pattern)))
    return f"{name}({fields})" if fields or not name else name
