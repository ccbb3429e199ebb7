"""Copy each polymorphic function for the types that it is used with; fill in inferred types; lower matches and references.

    def @id[A](%x: A) -> A { %x }              def @main(%x: float32) { @id(%x) }
    def @main(%x: float32) { @id(%x) }   ->    def @id(%x: float32) -> float32 { %x }

Requires: A-normal form.
Ensures: no function has type parameters; constructors, matches and references are calls of the operators of
``ops.defs.machine.adt_ops`` and ifs; parameters of inner functions have their inferred types.  A polymorphic or internal function
that is not used has no copy.
Raises TypeCheckError for a match that does not cover every value, and for a pattern that fits no value.

The copies of a function differ in types only.  A program in which a function needs infinitely many types is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ...declarations.frozen_dataclass import frozen
from ...ops.core.adt_types import TypeVar, substitute_types
from ...ops.core.tensor_types import FuncType, TupleType, Type, TypeTooLarge
from ...ops.defs.machine.adt_ops import MAKE_ADT, MAKE_REF, READ_REF, WRITE_REF, MakeAdtAttrs
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, TypeCheckError
from ..ir.anf import Names, rebuild, values
from ..ir.call_graph import recursion_groups
from ..ir.expr import (
    Call,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    IRModule,
    TypeData,
    Var,
    let_chain,
    make_lets,
    replace,
)
from ..ir.match_expr import Match, RefCreate, RefRead, RefWrite, pattern_vars
from ..ir.pass_declaration import declare_pass
from ..ir.visitor import bound_vars, children
from ..ir.well_formed import check_nesting
from .constraints import TypeSolver
from .local_functions import copy_per_use
from .lower_match import MatchLowering
from .open_types import open_mistakes, open_parameters
from .pattern_check import pattern_mistakes
from .unification import Compound, close

#: The most copies of one function.
MAX_COPIES = 1000
_REFERENCES = {RefCreate: MAKE_REF, RefRead: READ_REF, RefWrite: WRITE_REF}
_Env = dict[Expr, Expr]


@declare_pass("Monomorphize", "to_a_normal_form", makes_form=True)
def monomorphize(mod: IRModule) -> IRModule:
    """The module without type parameters, matches and references; ``mod`` itself if it has none of them."""
    if is_monomorphic(mod):
        return mod
    check_nesting(mod)
    return _Monomorphizer(mod, {}).run()


@frozen
class Copies:
    """``module``: the module without type parameters.  ``names``: the name in it of each function that has a copy to read.

    ``atoms``: for each variable of such a function the atom in its copy.  ``found``: the types found by unification, whose sizes
    are numbers or ``?``, of variables that have no atom: those of unreachable clauses.  ``type_args``: the type arguments of the
    call of a polymorphic function that a variable is bound to.
    """

    module: IRModule
    names: Mapping[str, str]
    atoms: Mapping[Expr, Expr]
    found: Mapping[Expr, Type]
    type_args: Mapping[Expr, tuple[Type, ...]]


def copies_to_read(mod: IRModule, wanted: Mapping[str, tuple[Type, ...]]) -> Copies:
    """``monomorphize`` with a copy of each ``wanted`` function for these type arguments too, and the way from ``mod`` to it."""
    if is_monomorphic(mod):
        return Copies(mod, {name: name for name in mod.functions}, {}, {}, {})
    check_nesting(mod)
    run = _Monomorphizer(mod, wanted)
    module = run.run()
    names, atoms, found, type_args = dict[str, str](), dict[Expr, Expr](), dict[Expr, Type](), dict[Expr, tuple[Type, ...]]()
    for copy in run.read:
        names[copy.original] = copy.instance.name
        atoms |= copy.atoms
        found |= copy.types_found()
        type_args |= copy.type_args
    return Copies(module, names, atoms, found, type_args)


def is_monomorphic(mod: IRModule) -> bool:
    """Whether the module, in A-normal form, has no type parameters, constructors, matches and references."""
    return not any(map(_concerns, mod.functions.values()))


def _concerns(function: Function) -> bool:
    """Whether the function has type parameters, a node of this pass's kind, or an inner function without types."""
    if function.type_params or function.is_internal:
        return True
    if function.is_primitive:
        return False
    for value in values(function.body):
        if isinstance(value, (Match, RefCreate, RefRead, RefWrite)) or (isinstance(value, Call) and value.type_args):
            return True
        if isinstance(value, Function) and value.type_params:
            return True
        if any(isinstance(child, Constructor) for child in children(value)):
            return True
    _, result = let_chain(function.body)
    return isinstance(result, Constructor)


def _on_demand(function: Function) -> bool:
    """Whether the new module has the function only where it is used."""
    return bool(function.type_params) or function.is_internal


def _is_declared(function: Function) -> bool:
    """Whether each parameter has a type."""
    return all(p.annotation is not None for p in function.params)


@frozen
class _Instance:
    """A function for type arguments: its name in the new module."""

    name: str
    function: Function
    type_args: tuple[Type, ...]


class _Monomorphizer:
    """The pass over one module; it answers the questions of a ``constraints.Program``."""

    def __init__(self, mod: IRModule, wanted: Mapping[str, tuple[Type, ...]]) -> None:
        self.mod, self.wanted = mod, wanted
        #: The copies of functions without type parameters, and the wanted ones.
        self.read: list[_Copy] = []
        self.names = Names({n for n, f in mod.functions.items() if not _on_demand(f)})
        self.instances: dict[tuple[str, str], _Instance] = {}
        self.waiting: list[_Instance] = []
        self.errors: list[Diagnostic] = []
        self._results: dict[tuple[str, str], Type | None] = {}
        self._copies: dict[str, int] = {}
        self._parameters: dict[str, list[Type | None]] = {}
        #: The arguments of calls of functions whose parameters have no types.
        self._arguments: dict[Function, list[list[Type | None]]] = {}

    def run(self) -> IRModule:
        functions: dict[str, Function] = {}
        used = {n: _Instance(n, f, ()) for n, f in self.mod.functions.items() if not _on_demand(f)}
        self.waiting = [instance for instance in used.values() if _is_declared(instance.function)]
        last = [] if len(self.waiting) == len(used) else self._callers_first(used)
        original = {id(instance): name for name, instance in used.items()}
        for name, type_args in self.wanted.items():
            self.instance(GlobalVar(name), type_args)
            original[id(self.waiting[-1])] = name
        while self.waiting or last:
            instance = (self.waiting or last).pop(0)
            copy = _Copy(self, instance, original.get(id(instance), ""))
            try:
                functions[instance.name] = copy.function()
            except TypeTooLarge as error:
                message = f"a type in @{instance.name} is too large: {error}"
                raise TypeCheckError(message, instance.function.span, help=error.help, code=codes.Type.SIZE) from None
            if copy.original:
                self.read.append(copy)
        if self.errors:
            raise TypeCheckError(self.errors)
        return replace(self.mod, functions={**{name: functions[name] for name in used}, **functions})

    def _callers_first(self, used: Mapping[str, _Instance]) -> list[_Instance]:
        """The functions without types of parameters, which their callers determine."""
        names = [name for group in reversed(recursion_groups(self.mod)) for name in group if name in used]
        return [used[name] for name in names if not _is_declared(used[name].function)]

    def function(self, name: str) -> Function | None:
        """The global function of a name, if there is one."""
        return self.mod.functions.get(name)

    def definition(self, name: str) -> TypeData | None:
        """The type definition of a name, if there is one."""
        return self.mod.type_definitions.get(name)

    def result_of(self, name: str, type_args: tuple[Type, ...], params: tuple[Type, ...]) -> Type | None:
        """The result type of a function without ``->`` for arguments of these types; None if it cannot be inferred."""
        key = (name, f"{list(map(str, type_args))} {list(map(str, params))}")
        if key not in self._results:
            self._results[key] = None  # a recursive call says nothing about the result
            function = self.mod.functions[name]
            solver = TypeSolver(self, dict(zip(function.type_params, type_args, strict=True)))
            self._results[key] = solver.solve(function, params)
        return self._results[key]

    def parameter_types(self, name: str) -> Sequence[Type | None]:
        """The types of a global function's parameters, declared or as its body determines them, over its type parameters."""
        function = self.mod.functions[name]
        declared = [p.annotation for p in function.params]
        if None not in declared:
            return declared
        if name not in self._parameters:
            self._parameters[name] = declared  # a recursive call says nothing about them
            self._parameters[name] = TypeSolver(self, {}).parameter_types(function)
        return self._parameters[name]

    def note_calls(self, solver: TypeSolver) -> None:
        """Note the types of the arguments in calls of functions without types of parameters."""
        for use, terms in solver.parameters.items():
            function = self.mod.functions[use.name]
            if not function.type_params and not _is_declared(function):
                self._arguments.setdefault(function, []).append([solver.type_of(t) for t in terms])

    def arguments(self, function: Function, params: Sequence[Var]) -> Iterator[tuple[Var, Type]]:
        """The types of the arguments that calls give to some parameters of a function."""
        position = {p: i for i, p in enumerate(function.params)}
        for types in self._arguments.get(function, ()):
            yield from ((p, ty) for p in params if (ty := types[position[p]]) is not None)

    def instance(self, use: GlobalVar, type_args: tuple[Type, ...]) -> GlobalVar:
        """The name of the copy of a polymorphic function for type arguments."""
        key = (use.name, str(list(map(str, type_args))))
        if key not in self.instances:
            self._copies[use.name] = self._copies.get(use.name, 0) + 1
            if self._copies[use.name] > MAX_COPIES:
                message = f"@{use.name} is used with more than {MAX_COPIES} types, the last one {type_args[0]}"
                help = "a function that calls itself with a larger type each time has no end of types"
                raise TypeCheckError(message, use.span, help=help, code=codes.Type.SIZE)
            made = _Instance(self.names(use.name), self.mod.functions[use.name], type_args)
            self.instances[key] = made
            self.waiting.append(made)
        return replace(use, name=self.instances[key].name)


class _Copy:
    """One function of the new module.  ``original``: the name of the function that it is the copy to read of, or empty.

    ``atoms``: the atom of each variable of the original; ``type_args``: see ``Copies``.
    """

    def __init__(self, program: _Monomorphizer, instance: _Instance, original: str) -> None:
        self.program, self.instance, self.original = program, instance, original
        self.atoms: dict[Expr, Expr] = {}
        self.type_args: dict[Expr, tuple[Type, ...]] = {}
        self.mapping: dict[TypeVar, Type] = dict(zip(instance.function.type_params, instance.type_args, strict=True))
        self.solver = TypeSolver(program, self.mapping)
        # each use of a global name, also in a copy, gets an object of its own, and so its own type arguments
        function = instance.function
        self.source = replace(function, body=_own_uses(copy_per_use(function.body))) if not function.is_primitive else function
        self.names = Names({v.name for v in _bound(self.source)})
        self.undeclared: set[Var] = set()

    def function(self) -> Function:
        """The function with its types."""
        if self.source.is_primitive:
            return self.source
        self.solver.solve(self.source)
        self._take_arguments()
        self.program.note_calls(self.solver)
        self.program.errors += open_mistakes(self.solver, self.instance.name, self.source.params)
        for terms in self.solver.instances.values():
            for term in terms:
                close(term)
        for term in (*self.solver.terms.values(), *self.solver.mapping.values()):
            close(term)
        # the type parameters of inner functions
        self.mapping |= {v: self.solver.type_of(term) or TupleType(()) for v, term in self.solver.mapping.items()}
        return self._function(self.source, {})

    def types_found(self) -> dict[Expr, Type]:
        """The types, as far as known, of the variables that are in no part of the copy."""
        left = [v for v in self.solver.vars if v not in self.atoms]
        return {v: ty for v in left if (ty := self.solver.type_of(self.solver.vars[v])) is not None}

    def _take_arguments(self) -> None:
        """Give parameters whose types the function leaves open the types of the arguments in calls."""
        unknown = [p for p in self.source.params if p.annotation is None and self.solver.type_of(self.solver.vars[p]) is None]
        open_here = open_parameters(self.solver, self.source.params)
        for param, ty in self.program.arguments(self.instance.function, unknown):
            self.solver.take(param, ty)
        # the type rules find the others, with their sizes
        self.undeclared = set(unknown) - set(open_here)

    def _type(self, ty: Type | None) -> Type | None:
        return None if ty is None else substitute_types(ty, self.mapping)

    def _function(self, function: Function, env: Mapping[Expr, Expr]) -> Function:
        params = tuple(replace(p, annotation=self._param(p)) for p in function.params)
        self.atoms.update(zip(function.params, params, strict=True))
        body = self._chain(function.body, {**env, **dict(zip(function.params, params, strict=True))})
        return replace(function, params=params, body=body, ret_type=self._type(function.ret_type), type_params=())

    def _param(self, var: Var) -> Type | None:
        """The declared type of a parameter, or its inferred type."""
        if var in self.undeclared:
            return None
        return self._type(var.annotation) if var.annotation is not None else self.solver.type_of(self.solver.vars[var])

    # ---- chains --------------------------------------------------------------------------------------------------------

    def _chain(self, chain: Expr, env: Mapping[Expr, Expr]) -> Expr:
        bindings, result = let_chain(chain)
        inner: _Env = dict(env)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            new = (
                replace(var, annotation=self._type(var.annotation))
                if var.annotation is not None
                else Var(var.name, span=var.span)
            )
            inner[var] = new
            made = self._value(value, inner, out)
            if isinstance(made, (Var, GlobalVar)) and new.annotation is None:
                inner[var] = made
            else:
                out.append((new, made))
            self.atoms[var] = inner[var]
            if isinstance(value, Call) and value.op in self.solver.instances:
                self.type_args[var] = self._type_arguments(value.op)
        return make_lets(out, self._atom(result, inner, out))

    def _value(self, value: Expr, env: _Env, out: list[tuple[Var, Expr]]) -> Expr:
        match value:
            case Function():
                return self._function(value, env)
            case Match():
                return self._match(value, env, out)
            case RefCreate() | RefRead() | RefWrite():
                op = _REFERENCES[type(value)]
                return Call(op, tuple(self._atom(a, env, out) for a in children(value)), op.attrs(), span=value.span)
            case Call(op=Constructor() as constructor):
                args = tuple(self._atom(a, env, out) for a in value.args)
                return Call(MAKE_ADT, args, self._adt(constructor), span=value.span)
            case Call():
                value = replace(value, type_args=())
        return rebuild(value, lambda a: self._atom(a, env, out), lambda chain: self._chain(chain, env))

    def _atom(self, atom: Expr, env: Mapping[Expr, Expr], out: list[tuple[Var, Expr]]) -> Expr:
        function = self.program.function(atom.name) if isinstance(atom, GlobalVar) else None
        if isinstance(atom, GlobalVar) and function is not None and _on_demand(function):
            return self.program.instance(atom, self._type_arguments(atom))
        if isinstance(atom, Constructor):
            return self._constructor_value(atom, out)
        return env.get(atom, atom)

    def _type_arguments(self, use: Expr) -> tuple[Type, ...]:
        """The types of the type parameters of a global function at one of its uses."""
        return tuple(self.solver.type_of(t) or TupleType(()) for t in self.solver.instances[use])

    # ---- constructors and matches ----------------------------------------------------------------------------------------

    def _adt(self, constructor: Constructor) -> MakeAdtAttrs:
        term = self.solver.terms[constructor].root()
        assert isinstance(term, Compound)
        ty = self.solver.type_of(term.parts[-1])
        if ty is None:
            message = f"the type of {constructor.name_hint} here is too large"
            help = "a function that calls itself with a larger type each time has no end of types"
            raise TypeCheckError(message, constructor.span, help=help, code=codes.Type.SIZE)
        return MakeAdtAttrs(str(ty), constructor.name_hint)

    def _constructor_value(self, constructor: Constructor, out: list[tuple[Var, Expr]]) -> Var:
        """A constructor that is used as a function."""
        ty = self.solver.type_of(self.solver.terms[constructor])
        assert isinstance(ty, FuncType)
        params = tuple(Var(self.names(f"field{i}"), t) for i, t in enumerate(ty.params))
        made = Var(self.names(constructor.name_hint.lower()), span=constructor.span)
        body = make_lets([(made, Call(MAKE_ADT, params, self._adt(constructor), span=constructor.span))], made)
        var = Var(self.names(f"make_{constructor.name_hint.lower()}"), span=constructor.span)
        out.append((var, Function(params, body, ty.result, span=constructor.span)))
        return var

    def _match(self, match: Match, env: _Env, out: list[tuple[Var, Expr]]) -> Expr:
        mistakes = pattern_mistakes(match, self.solver, self.program.definition)
        result = self.solver.type_of(self.solver.terms[match]) or TupleType(())
        if mistakes:
            self.program.errors += mistakes
            return self._atom(match.data, env, out)  # the module is refused
        data = self._atom(match.data, env, out)
        bound = [v for clause in match.clauses for v in pattern_vars(clause.lhs)]

        def right_side(chain: Expr, inner: Mapping[Expr, Expr]) -> Expr:
            self.atoms.update((v, inner[v]) for v in bound if v in inner)
            return self._chain(chain, inner)

        lowering = MatchLowering(match, data, result, self._pattern_type, right_side, self.program.definition, self.names)
        missing = lowering.missing()
        if missing is not None:
            self.program.errors.append(missing)
        return lowering.lower(out, env)

    def _pattern_type(self, var: Var) -> Type | None:
        return self.solver.type_of(self.solver.vars[var])


def _own_uses(chain: Expr) -> Expr:
    """The chain with an object of its own for each use of a global name or a constructor."""
    bindings, result = let_chain(chain)
    return make_lets([(var, rebuild(value, _own, _own_uses)) for var, value in bindings], _own(result))


def _own(atom: Expr) -> Expr:
    return replace(atom) if isinstance(atom, (GlobalVar, Constructor)) else atom


def _bound(function: Function) -> list[Var]:
    """The variables that a function in A-normal form binds."""
    found, todo = [*function.params], [function.body]
    while todo:
        bindings, _ = let_chain(todo.pop())
        for var, value in bindings:
            # the variables of patterns are bound anew, under their names
            found += [var, *(() if isinstance(value, Match) else bound_vars(value))]
            todo += children(value)
    return found
