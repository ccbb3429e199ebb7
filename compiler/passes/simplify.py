"""Replace a call by an operand, or by a simpler call, of the same value.

    let %a = multiply(%x, 1f);                    let %t = transpose(%x, axes=[2, 0, 1]);
    let %b = transpose(%a, axes=[1, 2, 0]);       %t
    let %t = transpose(%b, axes=[1, 2, 0]);  ->
    %t

The rules are in ``arithmetic_rules``, ``movement_rules`` and ``positions``; each preserves the value bit for bit, for every value
of the dtype (except the payload of a NaN).  Rules are applied until none matches.

A rule may eliminate a call only if the call cannot fail: ``reshape(reshape(%x, newshape=[-1, 3]), newshape=[-1])`` stays, since
it is an error where the size of ``%x`` is not a multiple of 3.  The replacement has the type of the call, including every dim,
and the same run-time checks.

Requires: typed A-normal form.
Ensures: the same; no variable is bound to an atom.  Dead bindings are left to ``eliminate_dead_code``.
"""

from __future__ import annotations

from ...ops.core.op import Op
from ..ir.anf import is_atom, rebuild, rebuild_lets
from ..ir.expr import Call, Expr, IRModule, Var, let_chain, map_bodies, replace
from ..ir.pass_declaration import declare_pass
from ..rules.arithmetic_rules import RULES as ARITHMETIC
from ..rules.movement_rules import RULES as MOVEMENT
from ..rules.movement_rules import VIEW_RULES
from ..rules.positions import RULES as POSITIONS
from ..rules.rewriting import Definitions, Rules
from .eliminate_dead_code import eliminate_dead_code


@declare_pass("SimplifyExpr", "infer_type")
def simplify(mod: IRModule, more: tuple[Rules, ...] = ()) -> IRModule:
    """The module with simpler calls; ``more``: rules that come first, which need not keep every bit of a float."""
    return _simplified(mod, (*more, ARITHMETIC, MOVEMENT, POSITIONS))


@declare_pass("SimplifyExprPostAlterOp", "infer_type")
def simplify_movement(mod: IRModule) -> IRModule:
    """The module with simpler calls of the operators that move elements: views, transposes, layout transforms."""
    return _simplified(mod, (MOVEMENT,))


@declare_pass("RemoveStandaloneReshapes", "infer_type")
def remove_reshapes(mod: IRModule) -> IRModule:
    """The module without reshapes that keep the shape, and with one reshape in the place of several after each other.

    A reshape to another shape stays: a value keeps the shape of its type.
    """
    return eliminate_dead_code(_simplified(mod, (VIEW_RULES,)), entries=tuple(mod.functions))


def _simplified(mod: IRModule, rules: tuple[Rules, ...]) -> IRModule:
    return map_bodies(mod, lambda body: _Simplifier(rules).chain(body))


class _Simplifier:
    """The rewriter of one function."""

    def __init__(self, rules: tuple[Rules, ...]) -> None:
        self.rules = rules
        self.same: dict[Expr, Expr] = {}  # variables that are aliases of an atom
        self.scope = Definitions()

    def _atom(self, atom: Expr) -> Expr:
        return self.same.get(atom, atom)

    def chain(self, chain: Expr) -> Expr:
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            value = rebuild(value, self._atom, self.chain)
            simple = self._simplest(value)
            if is_atom(simple) and simple.ty == var.ty:
                self.same[var] = simple
                continue
            # a variable may be known to have more named sizes than its value
            value = value if simple is value or is_atom(simple) else self._with_atoms(simple, out)
            self.scope.values[var] = value
            out.append((var, value))
        return rebuild_lets(chain, out, self._atom(result))

    def _with_atoms(self, value: Expr, bindings: list[tuple[Var, Expr]]) -> Expr:
        """``value`` with variables in the place of calls among its arguments, which a rule made."""
        if not isinstance(value, Call) or all(map(is_atom, value.args)):
            return value
        args = []
        for arg in value.args:
            if not is_atom(arg):
                var = Var(arg.op.name if isinstance(arg, Call) and isinstance(arg.op, Op) else "tuple", span=arg.span, ty=arg.ty)
                self.scope.values[var] = arg
                bindings.append((var, arg))
            args.append(arg if is_atom(arg) else var)
        return replace(value, args=tuple(args))

    def _simplest(self, value: Expr) -> Expr:
        """``value``, rewritten until no rule matches."""
        while isinstance(value, Call) and isinstance(value.op, Op):
            new = self._once(value, value.op)
            if new is None:
                break
            value = new
        return value

    def _once(self, call: Call, op: Op) -> Expr | None:
        """The result of the first matching rule; None if no rule matches."""
        for rule in (rule for rules in self.rules for rule in rules.of(op)):
            new = rule(call, self.scope)
            if isinstance(new, Call):
                if self.scope.is_equivalent(new, call):
                    return replace(new, span=call.span, ty=call.ty)
            elif new is not None and new.ty == call.ty and self.scope.is_safe(call):
                return new
        return None
