"""``Defunctionalization``: a program without functions as values.  A function value becomes a value of an ADT.

    def @main(%n: int32) {                          type Function { Closure_main_fn(int32) }
      let %f = fn (%x: int32) { %x * %n };    ->    def @apply(%f: Function, %x0: int32) -> int32 {
      @twice(%f)                                      match (%f) { Closure_main_fn(%n) => @main_fn(%n, %x0) }
    }                                               }
                                                    def @main(%n: int32) { let %f = Closure_main_fn(%n); @twice(%f) }

Each type of functions has an ADT, with a constructor for each function that becomes a value of the type, whose fields are the
captured values; a call of a value is a call of the ADT's function ``apply``.  Function types that differ in sizes only have one
ADT.  The program is monomorphic: each function is copied for the types that it is used with.

Reynolds: Definitional interpreters for higher-order programming languages, 1972.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ....ops.core.adt_types import GlobalTypeVar, TypeCall, TypeVar, instance_name, map_type, type_parts
from ....ops.core.tensor_types import FuncType, TensorType, TupleType, Type
from ....ops.defs.machine.machine_ops import ALLOC_CLOSURE
from ....shape_funcs.symbolic.dim import ANY, const
from ....vm.diagnostics import codes
from ....vm.diagnostics.source import TypeCheckError
from ...ir.anf import Names, inner_chains, rebuild
from ...ir.expr import (
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
    type_of,
)
from ...ir.match_expr import Clause, Match, PatternConstructor, PatternVar
from ..requirements import with_requirements
from .raising import Raising


def defunctionalized(mod: IRModule, entry: str) -> IRModule:
    """The module without functions as values.

    Raises TypeCheckError, also for an entry whose parameters or result have functions, and for a constructor that has a function
    of a type parameter.
    """
    _check_entry(mod, entry)
    lifted = with_requirements(mod, ("LambdaLift",))
    return _Program(lifted).module()


def _check_entry(mod: IRModule, entry: str) -> None:
    typed = with_requirements(mod, ("InferType",))
    signature = typed[entry].ty
    assert isinstance(signature, FuncType)
    if any(_has_function(part, typed.type_definitions) for part in type_parts(signature)):
        message = f"Defunctionalization: @{entry} has a function as parameter or result: {signature}"
        raise TypeCheckError(message, mod[entry].span, code=codes.Type.MISMATCH)


def _has_function(ty: Type, definitions: Mapping[str, TypeData]) -> bool:
    """Whether a value of the type may hold a function."""
    todo, seen = [ty], set()
    while todo:
        part = todo.pop()
        if isinstance(part, FuncType):
            return True
        todo += type_parts(part)
        if isinstance(part, TypeCall) and part.func.name not in seen:
            seen.add(part.func.name)
            todo += [f for c in definitions[part.func.name].constructors for f in c.inputs]
    return False


@dataclass(eq=False)
class _FunctionType:
    """The functions of one type, up to sizes: their ADT, its function ``apply``, the constructor of each."""

    type: FuncType
    header: GlobalTypeVar
    apply: str
    closures: dict[str, Constructor] = field(default_factory=dict)
    called: bool = False


class _Program:
    """The conversion of a module after ``LambdaLift``."""

    def __init__(self, mod: IRModule) -> None:
        self.mod = mod
        self.names = Names(set(mod.functions))
        self.type_names = Names(set(mod.type_definitions))
        self.constructor_names = Names({c.name for data in mod.type_definitions.values() for c in data.constructors})
        self.types: dict[str, _FunctionType] = {}
        #: Whether one ADT has functions of tensors of several sizes; a type argument of an ADT then has no sizes.
        self.sizes_differ = False
        for ty in self._all_types():
            self._note(ty)
        self.definitions = {name: self._definition(data) for name, data in mod.type_definitions.items()}
        self.raising = Raising(self.definitions)

    def module(self) -> IRModule:
        """The module without functions as values."""
        functions = {name: f if f.is_primitive else self._function(f) for name, f in self.mod.functions.items()}
        for found in self.types.values():
            if found.called:
                functions[found.apply] = self._apply(found)
            constructors = tuple(found.closures.values())
            self.definitions[found.header.name] = TypeData(found.header, (), constructors)
        return replace(self.mod, functions=functions, type_definitions=self.definitions)

    # ---- types ---------------------------------------------------------------------------------------------------------

    def _all_types(self) -> Iterator[Type]:
        for data in self.mod.type_definitions.values():
            for constructor in data.constructors:
                yield from constructor.inputs
        for function in self.mod.functions.values():
            if not function.is_primitive:
                variables = [*function.params, *(var for var, _ in _bindings(function.body))]
                yield from (ty for v in variables for ty in (v.ty, v.annotation) if ty is not None)
                yield from () if function.ret_type is None else (function.ret_type,)

    def _note(self, ty: Type) -> None:
        """Note the function types in a type."""
        if isinstance(ty, FuncType):
            if _type_variables(ty):
                message = f"Defunctionalization: a constructor has a field of type {ty}, whose type parameter has no value"
                raise TypeCheckError(message, None, code=codes.Type.MISMATCH)
            key = instance_name(ty)
            if key in self.types:
                merged = _merged(self.types[key].type, ty)
            else:
                header = GlobalTypeVar(self.type_names("Function"))
                merged = _merged(ty, ty)
                self.types[key] = _FunctionType(ty, header, self.names(f"apply_{header.name.lower()}"))
            assert isinstance(merged, FuncType)
            self.sizes_differ |= str(merged) != str(_open(ty))
            self.types[key].type = merged
        for part in type_parts(ty):
            self._note(part)

    def _type(self, ty: Type) -> Type:
        """The type with ADTs in the place of functions."""

        def change(part: Type) -> Type | None:
            if isinstance(part, FuncType):
                return TypeCall(self.types[instance_name(part)].header, ())
            if isinstance(part, TypeCall) and self.sizes_differ:
                return replace(part, args=tuple(self._type(_without_sizes(arg)) for arg in part.args))
            return None

        return map_type(ty, change)

    def _of(self, ty: Type | None) -> _FunctionType:
        assert isinstance(ty, FuncType)
        return self.types[instance_name(ty)]

    def _definition(self, data: TypeData) -> TypeData:
        constructors = tuple(replace(c, inputs=tuple(map(self._type, c.inputs))) for c in data.constructors)
        return replace(data, constructors=constructors)

    # ---- functions -----------------------------------------------------------------------------------------------------

    def _function(self, function: Function) -> Function:
        env: dict[Expr, Expr] = {}
        params = tuple(self._var(p, env) for p in function.params)
        ret_type = None if function.ret_type is None else self._type(function.ret_type)
        return replace(function, params=params, body=self._chain(function.body, env), ret_type=ret_type, ty=None)

    def _var(self, var: Var, env: dict[Expr, Expr]) -> Var:
        annotation = None if var.annotation is None else self._type(var.annotation)
        new = Var(var.name, annotation, span=var.span)
        env[var] = new
        return new

    def _chain(self, chain: Expr, env: dict[Expr, Expr]) -> Expr:
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []
        for var, value in bindings:
            made, new = self._value(value, env), self._var(var, env)
            if isinstance(value, Call) and isinstance(value.op, Var) and new.annotation is None:
                # the result of apply may have fewer known sizes
                new = env[var] = replace(new, annotation=self._type(_open(type_of(var))))
            out.append((new, made))
        return make_lets(out, _atom(result, env))

    def _value(self, value: Expr, env: dict[Expr, Expr]) -> Expr:
        if isinstance(value, Call) and value.op is ALLOC_CLOSURE:
            name, captured = value.args[0], value.args[1:]
            assert isinstance(name, GlobalVar)
            constructor = self._constructor(self._of(value.ty), name.name, captured)
            return Call(constructor, tuple(_atom(a, env) for a in captured), span=value.span)
        if isinstance(value, Call) and isinstance(value.op, Var):
            found = self._of(value.op.ty)
            found.called = True
            args = tuple(_atom(a, env) for a in (value.op, *value.args))
            return Call(GlobalVar(found.apply, span=value.op.span), args, span=value.span)
        return self.raising.value(rebuild(value, lambda a: _atom(a, env), lambda inner: self._chain(inner, env)))

    def _constructor(self, found: _FunctionType, name: str, captured: tuple[Expr, ...]) -> Constructor:
        if name not in found.closures:
            inputs = tuple(self._type(_open(type_of(a))) for a in captured)
            constructor = Constructor(self.constructor_names(f"Closure_{name}"), inputs, found.header, len(found.closures))
            found.closures[name] = constructor
        return found.closures[name]

    def _apply(self, found: _FunctionType) -> Function:
        f = Var("f", TypeCall(found.header, ()))
        args = tuple(Var(f"x{k}", self._type(ty)) for k, ty in enumerate(found.type.params))
        clauses = []
        for name, constructor in found.closures.items():
            fields = tuple(Var(f"c{k}") for k in range(len(constructor.inputs)))
            pattern = PatternConstructor(constructor, tuple(map(PatternVar, fields)))
            clauses.append(Clause(pattern, Call(GlobalVar(name), (*fields, *args))))
        body = Match(f, tuple(clauses), complete=bool(clauses))
        return Function((f, *args), body, self._type(found.type.result))


def _atom(atom: Expr, env: Mapping[Expr, Expr]) -> Expr:
    return env.get(atom, replace(atom, ty=None) if isinstance(atom, GlobalVar) else atom)


def _bindings(chain: Expr) -> Iterator[tuple[Var, Expr]]:
    todo = [chain]
    while todo:
        bindings, _ = let_chain(todo.pop())
        for var, value in bindings:
            yield var, value
            todo += inner_chains(value)


def _type_variables(ty: Type) -> bool:
    return isinstance(ty, TypeVar) or any(map(_type_variables, type_parts(ty)))


def _without_sizes(ty: Type) -> Type:
    return map_type(ty, lambda t: TensorType((ANY,) * t.rank, t.dtype) if isinstance(t, TensorType) else None)


def _open(ty: Type) -> Type:
    """The type without names of sizes, which belong to one function."""
    return _merged(ty, ty)


def _merged(a: Type, b: Type) -> Type:
    """The least type of the values of both, which differ in sizes only."""
    match a, b:
        case TensorType(), TensorType():
            pairs = zip(a.shape, b.shape, strict=True)
            return TensorType(tuple(x if const(x) is not None and x == y else ANY for x, y in pairs), a.dtype)
        case TupleType(), TupleType():
            return TupleType(tuple(_merged(x, y) for x, y in zip(a.fields, b.fields, strict=True)))
        case FuncType(), FuncType():
            params = tuple(_merged(x, y) for x, y in zip(a.params, b.params, strict=True))
            return FuncType(params, _merged(a.result, b.result))
        case TypeCall(), TypeCall():
            return replace(a, args=tuple(_merged(x, y) for x, y in zip(a.args, b.args, strict=True)))
    return a
