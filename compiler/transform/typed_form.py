"""Types for the expressions of a module in the form that the module has.

The type rules know A-normal form without type parameters.  They type a copy of the module, in which each type parameter of a
function is a type of its own without values: an *opaque* type.  Each expression takes the type of its variable in the copy, with
type parameters in the place of opaque types.
"""

from __future__ import annotations

from collections.abc import Mapping

from ...declarations.frozen_dataclass import frozen
from ...ops.core.adt_types import GlobalTypeVar, TypeCall, TypeVar, map_type
from ...ops.core.tensor_types import FuncType, TensorType, Type
from ...shape_funcs.symbolic.dim import ANY, INT, Dim, name_of
from ...vm.diagnostics.source import TypeCheckError
from ..ir.anf import Names
from ..ir.expr import Call, Constant, Constructor, Expr, Function, GlobalVar, IRModule, Let, TypeData, Var, replace
from ..ir.match_expr import Clause, Match, Pattern, PatternConstructor, PatternTuple, PatternVar
from ..ir.visitor import children, post_order, with_children
from ..ir.well_formed import check_bindings, check_nesting
from ..passes.infer_type import variable_types
from ..passes.to_a_normal_form import with_atoms
from ..polymorphism.local_functions import with_opaque_copies
from ..polymorphism.monomorphize import Copies, copies_to_read
from ..type_inference.type_match import map_dims, symbols_of


def typed_form(mod: IRModule) -> IRModule:
    """The module with the type of every expression, in its own form: shared expressions, constructors, type parameters stay.

    Functions have their result types, parameters their annotations, calls of polymorphic global functions their type arguments.
    A polymorphic function whose body has types only for given type arguments keeps its body without types.
    Raises TypeCheckError.
    """
    check_bindings(mod)
    opaque = _OpaqueTypes(mod)
    normal: dict[str, Function] = {}
    atoms: dict[Expr, Expr] = {}
    for name, function in mod.functions.items():
        normal[name], own = with_atoms(function)
        atoms.update(own)
    check_nesting(replace(mod, functions=normal))
    copied = {name: with_opaque_copies(function, opaque.of, atoms) for name, function in normal.items()}
    typed = _inferred(replace(mod, functions=copied), opaque)
    return _TypedForm(mod, typed, atoms, opaque).run()


class _OpaqueTypes:
    """The opaque type of each type parameter, and the type parameter of each opaque type."""

    def __init__(self, mod: IRModule) -> None:
        self._names = Names(set(mod.type_definitions))
        self.variables: dict[str, TypeVar] = {}
        self._types: dict[TypeVar, Type] = {}

    def of(self, var: TypeVar) -> Type:
        """The opaque type of a type parameter."""
        if var not in self._types:
            name = self._names(var.name)
            self.variables[name] = var
            self._types[var] = TypeCall(GlobalTypeVar(name), ())
        return self._types[var]

    def definitions(self) -> dict[str, TypeData]:
        """The definitions of the opaque types, without constructors."""
        return {name: TypeData(GlobalTypeVar(name)) for name in self.variables}

    def without(self, ty: Type) -> Type:
        """A type with type parameters in the place of opaque types."""
        if not self.variables:
            return ty
        return map_type(ty, lambda t: self.variables.get(t.func.name) if isinstance(t, TypeCall) else None)


@frozen
class _Typed:
    """The copy with types, and the typed variable of each of its variables."""

    copies: Copies
    module: IRModule
    variables: Mapping[Var, Var]


def _inferred(normal: IRModule, opaque: _OpaqueTypes) -> _Typed:
    """The types of a module in A-normal form.  Raises TypeCheckError."""
    wanted = {
        name: tuple(map(opaque.of, f.type_params))
        for name, f in normal.functions.items()
        if (f.type_params or f.is_internal) and all(p.annotation is not None for p in f.params)
    }
    module = replace(normal, type_definitions={**normal.type_definitions, **opaque.definitions()})
    try:
        return _with_types(module, wanted)
    except TypeCheckError:
        if not wanted:
            raise
    _with_types(module, {})  # a mistake of the program itself is raised
    kept = {name: types for name, types in wanted.items() if _has_types(module, {name: types})}
    return _with_types(module, kept)


def _with_types(module: IRModule, wanted: Mapping[str, tuple[Type, ...]]) -> _Typed:
    copies = copies_to_read(module, wanted)
    return _Typed(copies, *variable_types(copies.module))


def _has_types(module: IRModule, wanted: Mapping[str, tuple[Type, ...]]) -> bool:
    try:
        _with_types(module, wanted)
    except TypeCheckError:
        return False
    return True


class _TypedForm:
    """The module with types; ``atoms``: the atom of each of its expressions in A-normal form."""

    def __init__(self, mod: IRModule, typed: _Typed, atoms: Mapping[Expr, Expr], opaque: _OpaqueTypes) -> None:
        self.mod, self.typed, self.atoms, self.opaque = mod, typed, atoms, opaque
        self.vars: dict[Var, Var] = {}
        self.functions: dict[Var, Function] = {}  # functions bound by lets

    def run(self) -> IRModule:
        return replace(self.mod, functions={name: self._global(name, f) for name, f in self.mod.functions.items()})

    def _global(self, name: str, function: Function) -> Function:
        copy = self.typed.module.functions.get(self.typed.copies.names.get(name, ""))
        if function.is_primitive or copy is None:
            return function if copy is None else copy
        new: dict[int, Expr] = {}
        nodes = post_order(function.body)
        self.functions |= {let.var: let.value for let in nodes if isinstance(let, Let) and isinstance(let.value, Function)}
        for node in nodes:
            new[id(node)] = self._node(node, new)
        # the parameters of the copy have the inferred annotations
        return self._function(function, new[id(function.body)], copy.ty)

    # ---- types -----------------------------------------------------------------------------------------------------------

    def _atom(self, expr: Expr) -> Expr:
        """The atom of an expression in A-normal form."""
        while expr in self.atoms:
            expr = self.atoms[expr]
        return expr

    def _type(self, expr: Expr) -> Type | None:
        """The type of an expression, None if it has none: it is in a function without types, or is not reachable."""
        atom, copies = self._atom(expr), self.typed.copies
        if atom in copies.found and atom not in copies.atoms:
            return self.opaque.without(copies.found[atom])
        atom = copies.atoms.get(atom, atom)
        match atom:
            case Constant():
                return TensorType.of(atom.data.shape, atom.data.dtype.name)
            case GlobalVar():
                return self._signature(atom)
            case Constructor():
                return self._constructor(atom)
        known = self.typed.variables.get(atom) if isinstance(atom, Var) else None
        return None if known is None or known.ty is None else self.opaque.without(known.ty)

    def _signature(self, name: GlobalVar) -> Type | None:
        """The type of a global function, with its type parameters."""
        original, copies = self.mod.functions.get(name.name), self.typed.copies
        copy = self.typed.module.functions.get(copies.names.get(name.name, name.name))
        if original is None or copy is None:
            return None if copy is None or copy.ty is None else self.opaque.without(copy.ty)
        return self._polymorphic(copy.ty, original)

    def _polymorphic(self, ty: Type | None, function: Function) -> Type | None:
        """The type of a function, with its type parameters."""
        ty = None if ty is None else self.opaque.without(ty)
        return replace(ty, type_params=function.type_params) if isinstance(ty, FuncType) and function.type_params else ty

    def _constructor(self, constructor: Constructor) -> Type:
        data = self.mod.type_definitions[constructor.belong_to.name]
        return FuncType(constructor.inputs, TypeCall(data.header, data.type_vars), data.type_vars)

    # ---- nodes -----------------------------------------------------------------------------------------------------------

    def _node(self, node: Expr, new: Mapping[int, Expr]) -> Expr:
        if isinstance(node, Var):
            return self._var(node)
        made = with_children(node, tuple(new[id(child)] for child in children(node)))
        match made:
            case Function():
                return self._function(made, made.body, self._type(node))
            case Let():
                return replace(made, var=self._var(made.var), ty=made.body.ty)
            case Match():
                made = replace(made, clauses=tuple(Clause(self._pattern(c.lhs), c.rhs) for c in made.clauses))
            case Call(op=GlobalVar()):
                made = replace(made, type_args=self._type_args(node) or made.type_args)
        return replace(made, ty=self._type(node))

    def _type_args(self, call: Expr) -> tuple[Type, ...]:
        found = self.typed.copies.type_args.get(self._atom(call), ())
        return tuple(map(self.opaque.without, found))

    def _function(self, function: Function, body: Expr, found: Type | None) -> Function:
        ty = self._polymorphic(found, function)
        params = tuple(map(self._var, function.params))
        return with_result_type(replace(function, params=params, body=body, ty=ty))

    def _var(self, var: Var) -> Var:
        if var not in self.vars:
            ty, atom = self._type(var), self._atom(var)
            if var in self.functions:
                ty = self._polymorphic(ty, self.functions[var])
            copy = self.typed.copies.atoms.get(atom, atom)
            known = self.typed.variables.get(copy) if isinstance(copy, Var) else None
            annotation = var.annotation
            if annotation is None and known is not None and known.annotation is not None:
                annotation = self.opaque.without(known.annotation)
            self.vars[var] = replace(var, annotation=annotation, ty=ty)
        return self.vars[var]

    def _pattern(self, pattern: Pattern) -> Pattern:
        match pattern:
            case PatternVar():
                return replace(pattern, var=self._var(pattern.var))
            case PatternConstructor() | PatternTuple():
                return replace(pattern, patterns=tuple(map(self._pattern, pattern.patterns)))
        return pattern


def with_result_type(function: Function) -> Function:
    """A typed function with an annotation of its result: ``?`` stands for a size that is no number and no size of a parameter."""
    if function.ret_type is not None or not isinstance(function.ty, FuncType):
        return function
    known = symbols_of(*function.ty.params)

    def change(d: Dim) -> Dim:
        return d if d.op == INT or (d in known and name_of(d) is not None) else ANY

    result = function.ty.result
    # the names of sizes in a function type are its own
    return replace(function, ret_type=result if isinstance(result, FuncType) else map_dims(result, change))
