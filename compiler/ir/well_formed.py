"""Well-formedness checks: of a module that a user built, and in tests of the output of every pass."""

from __future__ import annotations

from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, TypeCheckError
from .anf import deepest, inner_chains, is_atom, operands
from .expr import Constant, Expr, Function, GlobalVar, IRModule, Let, Var
from .match_expr import Match
from .visitor import bound_vars, post_order

#: The deepest nesting of branches and functions, over which passes recurse; chains may have any length.
MAX_NESTING = 150


def check_bindings(mod: IRModule) -> None:
    """Raises TypeCheckError unless each function of the module binds each of its variables once.

    A text always does.  A program built in Python may use one ``relay.var`` in two lets.
    """
    mistakes = []
    for name, function in mod.functions.items():
        binder: dict[Var, Expr] = {}
        for node in post_order(function):
            for var in bound_vars(node):
                first = binder.setdefault(var, node)
                if first is not node or bound_vars(node).count(var) > 1:
                    mistakes.append(_bound_twice(name, var, first, node))
    if mistakes:
        raise TypeCheckError(mistakes)


def check_nesting(mod: IRModule) -> None:
    """Raises TypeCheckError for branches and functions that are nested deeper than ``MAX_NESTING``, in A-normal form."""
    for name, function in mod.functions.items():
        depth, innermost = deepest(function)
        if depth > MAX_NESTING:
            assert innermost is not None
            message = f"branches and functions are nested {depth} deep in @{name}; at most {MAX_NESTING} is supported"
            raise TypeCheckError(
                message, innermost.span, help="move some of them into a function of their own", code=codes.Type.SIZE
            )


def _bound_twice(name: str, var: Var, first: Expr, second: Expr) -> Diagnostic:
    kinds = [type(node) for node in (first, second)]
    if kinds == [Let, Let]:
        by = "by two lets"
    elif Match in kinds:
        by = "by a pattern and once more"
    else:
        by = "as a parameter of two functions" if Let not in kinds else "by a let and as a parameter of a function"
    notes = tuple((f"here as {_what(node)}", node.span) for node in (first, second) if node.span is not None)
    help = f"a variable is bound once: make a relay.var({var.name!r}) for each let and each function"
    return Diagnostic(f"%{var.name} is bound twice in @{name}: {by}", var.span, notes, help, codes.Type.BINDING)


def _what(binder: Expr) -> str:
    if isinstance(binder, Match):
        return "the variable of a pattern"
    return "the variable of a let" if isinstance(binder, Let) else "a parameter"


def check(mod: IRModule, after: str, *, typed: bool, named: bool = True) -> None:
    """Raises AssertionError, which names the pass ``after`` and the place, unless ``mod`` is well-formed.

    A well-formed module is in A-normal form, binds every variable once and before its use, defines every global name and, with
    ``typed``, has a type for every node.  Without ``named``, unknown names are left to ``infer_type``: they are the user's
    errors.
    """
    for name, function in mod.functions.items():
        problem = _Checker(mod, typed, named).function(function)
        assert problem is None, f"after {after}, @{name} is not well-formed: {problem}"


class _Checker:
    """The checker of one global function."""

    def __init__(self, mod: IRModule, typed: bool, named: bool) -> None:
        self.mod, self.typed, self.named = mod, typed, named
        self.bound: set[Var] = set()

    def function(self, function: Function) -> str | None:
        """The first problem of ``function``, or None."""
        pending: list[tuple[Expr, frozenset[Var]]] = [(function.body, frozenset(function.params))]
        self.bound |= set(function.params)
        for p in function.params:
            if self.typed and p.ty is None:
                return f"the parameter %{p.name} has no type"
        while pending:
            chain, outer = pending.pop()
            scope = set(outer)
            while isinstance(chain, Let):
                problem = self._binding(chain, scope)
                if problem:
                    return problem
                if inner_chains(chain.value):
                    params = bound_vars(chain.value)
                    self.bound |= set(params)
                    # a closure may be recursive
                    own = {chain.var} if isinstance(chain.value, Function) else set()
                    pending += [(c, frozenset(scope | set(params) | own)) for c in inner_chains(chain.value)]
                scope.add(chain.var)
                chain = chain.body
            problem = self._atom(chain, scope)
            if problem:
                return f"{problem}, as a result"
        return None

    def _binding(self, let: Let, scope: set[Var]) -> str | None:
        var, value = let.var, let.value
        if var in self.bound:
            return f"%{var.name} is bound twice"
        self.bound.add(var)
        if self.typed and (var.ty is None or value.ty is None):
            return f"%{var.name} or its value has no type"
        for operand in operands(value):
            problem = self._atom(operand, scope)
            if problem:
                return f"{problem}, in the value of %{var.name}"
        return None

    def _atom(self, atom: Expr, scope: set[Var]) -> str | None:
        if not is_atom(atom):
            return f"{type(atom).__name__} where an atom must be"
        if self.named and isinstance(atom, Var) and atom not in scope:
            return f"%{atom.name} is not bound"
        if self.named and isinstance(atom, GlobalVar) and atom.name not in self.mod.functions:
            return f"there is no function @{atom.name}"
        if self.typed and isinstance(atom, Constant) and atom.ty is None:
            return "a constant has no type"
        return None


def has_form(mod: IRModule, *, typed: bool) -> bool:
    """Whether the module is in A-normal form and, with ``typed``, has a type for every node; unknown names do not count."""
    return all(_Checker(mod, typed, named=False).function(function) is None for function in mod.functions.values())
