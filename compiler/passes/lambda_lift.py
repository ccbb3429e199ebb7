"""Lift every function literal to a global function; functions used as values become closures.

    def @main(%x: float32) {                     def @main(%x: float32) {
      let %scale = fn (%y: float32) {              let %r = @main_scale(%x, 2f);
        let %m = multiply(%x, %y); %m    ->        let %scale = vm.alloc_closure(@main_scale, %x);
      };                                           let %t = (%r, %scale);
      let %r = %scale(2f);                         %t
      let %t = (%r, %scale);                     }
      %t                                         def @main_scale(%x: float32, %y: float32) {
    }                                              let %m = multiply(%x, %y); %m
                                                 }

The captured values are the first parameters.  A call of a let-bound function is a direct call, also inside the function itself; a
closure is allocated only for a use as a value.  A function that uses itself as a value allocates a closure from its captured
values.

Requires: typed A-normal form.
Ensures: the same, without function literals; a global name is used only as a callee or by ``vm.alloc_closure``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...ops.core.op import NoAttrs, Op
from ...ops.core.tensor_types import FuncType, TensorType, TupleType, Type
from ...ops.defs.machine.machine_ops import ALLOC_CLOSURE
from ...shape_funcs.symbolic.dim import ANY, Dim, const, name_of, sym
from ..ir.anf import Names, inner_chains, nested_bindings, operands, rebuild
from ..ir.expr import Call, Expr, Function, GlobalVar, IRModule, Let, Var, let_chain, make_lets, replace
from ..ir.pass_declaration import declare_pass
from ..type_inference.type_match import dims_of


@declare_pass("LambdaLift", "infer_type")
def lambda_lift(mod: IRModule) -> IRModule:
    """The module without function literals."""
    lifted: dict[str, Function] = {}
    names = Names(set(mod.functions))
    functions = {}
    for name, function in mod.functions.items():
        if function.is_primitive:
            functions[name] = function
        else:
            functions[name] = replace(function, body=_Lifter(name, function, names, lifted).chain(function.body, {}))
    return replace(mod, functions={**functions, **lifted})


@dataclass(eq=False)
class _Literal:
    """A let-bound function, its free variables and its uses."""

    var: Var
    function: Function
    name: str
    used: dict[Var, None] = field(default_factory=dict)  # captured values, in order
    calls: set[Var] = field(default_factory=set)  # outer literals that it calls
    as_value: bool = False  # used as a value outside its own body
    as_own_value: bool = False  # used as a value inside it


_Env = dict[Expr, Expr]


class _Lifter:
    """The lifter of the literals of one global function into ``lifted``."""

    def __init__(self, name: str, function: Function, names: Names, lifted: dict[str, Function]) -> None:
        self.lifted = lifted
        self.literals = {
            var: _Literal(var, value, names(f"{name}_{var.name}"))
            for var, value in nested_bindings(function.body)
            if isinstance(value, Function)
        }
        self._find_uses(function.body, [])
        self._close()

    # ---- analysis ------------------------------------------------------------------------------------------------------

    def _find_uses(self, chain: Expr, around: list[tuple[_Literal, set[Var]]]) -> None:
        """Record the uses in ``chain``, which is nested in the literals ``around``, each with the variables bound in it."""
        while isinstance(chain, Let):
            value = chain.value
            call = value if isinstance(value, Call) and value.op in self.literals else None
            callee = call.op if call is not None else None
            for atom in operands(value):
                if isinstance(atom, Var) and atom is not callee:
                    self._use(atom, around)
            if call is not None and isinstance(callee, Var):
                for literal, bound in around:
                    if callee not in bound:
                        literal.calls.add(callee)
                for atom in call.args:
                    if atom is callee:
                        self._use(callee, around)
            if isinstance(value, Function):
                # a literal's own variable is in scope in its body, but is not bound there
                inside = [(literal, {*bound, *value.params, chain.var}) for literal, bound in around]
                self._find_uses(value.body, [*inside, (self.literals[chain.var], set(value.params))])
            else:
                for inner in inner_chains(value):
                    self._find_uses(inner, [(literal, set(bound)) for literal, bound in around])
            for _, bound in around:
                bound.add(chain.var)
            chain = chain.body
        if isinstance(chain, Var):
            self._use(chain, around)

    def _use(self, var: Var, around: list[tuple[_Literal, set[Var]]]) -> None:
        """Record a use of ``var`` as a value."""
        own = self.literals.get(var)
        if own is not None:
            if any(literal is own for literal, _ in around):
                own.as_own_value = True
            else:
                own.as_value = True
        for literal, bound in around:
            if var not in bound and literal is not own:
                literal.used[var] = None

    def _close(self) -> None:
        """Add the captures of each called literal to its callers, to a fixed point."""
        changed = True
        while changed:
            changed = False
            for literal in self.literals.values():
                before = len(literal.used)
                for callee in literal.calls:
                    literal.used.update((v, None) for v in self.literals[callee].used if v is not literal.var)
                changed |= len(literal.used) != before

    # ---- rewriting -----------------------------------------------------------------------------------------------------

    def chain(self, chain: Expr, env: _Env) -> Expr:
        """The chain without literals; ``env`` maps captured variables to the parameters that replace them."""
        bindings, result = let_chain(chain)
        out: list[tuple[Var, Expr]] = []

        def atom(a: Expr) -> Expr:
            return _closure(a, out) if isinstance(a, GlobalVar) else env.get(a, a)

        for var, value in bindings:
            if isinstance(value, Function):
                self._lift(self.literals[var])
                if self.literals[var].as_value:
                    out.append((var, self._allocate(self.literals[var], env)))
            elif isinstance(value, Call):
                out.append((var, self._call(value, env, atom)))
            else:
                out.append((var, rebuild(value, atom, lambda inner: self.chain(inner, env))))
        end = atom(result)
        return make_lets(out, end)

    def _call(self, call: Call, env: _Env, atom: Callable[[Expr], Expr]) -> Call:
        if call.op is ALLOC_CLOSURE:
            return replace(call, args=(call.args[0], *map(atom, call.args[1:])))
        args = tuple(map(atom, call.args))
        if isinstance(call.op, (Op, GlobalVar)):
            return replace(call, args=args)
        literal = self.literals.get(call.op) if isinstance(call.op, Var) else None
        if literal is None:
            return replace(call, op=atom(call.op), args=args)
        return replace(call, op=self._global(literal), args=(*self._captured(literal, env), *args))

    def _captured(self, literal: _Literal, env: _Env) -> list[Expr]:
        return [env.get(v, v) for v in literal.used]

    def _global(self, literal: _Literal) -> GlobalVar:
        own = literal.function.ty
        assert isinstance(own, FuncType)
        params = tuple(_typed(v) for v in literal.used) + own.params
        return GlobalVar(literal.name, ty=FuncType(params, own.result))

    def _allocate(self, literal: _Literal, env: _Env) -> Call:
        args = (self._global(literal), *self._captured(literal, env))
        return Call(ALLOC_CLOSURE, args, NoAttrs(), span=literal.function.span, ty=literal.var.ty)

    def _lift(self, literal: _Literal) -> None:
        function = literal.function
        inner = [*literal.used, *function.params]
        say = _Annotations([_typed(v) for v in inner])
        params = tuple(replace(v, annotation=say(_typed(v))) for v in inner)
        env: _Env = dict(zip(inner, params, strict=True))
        own: list[tuple[Var, Expr]] = []
        if literal.as_own_value:
            itself = replace(literal.var, annotation=None)
            own.append((itself, self._allocate(literal, env)))
            env[literal.var] = itself
        # reserve the position before the body is lifted: inner functions follow this one
        self.lifted[literal.name] = function
        bindings, result = let_chain(self.chain(function.body, env))
        body = make_lets(own + bindings, result)
        assert body.ty is not None
        ret_type = None if function.ret_type is None else say(body.ty)
        ty = self._global(literal).ty
        self.lifted[literal.name] = replace(function, params=params, body=body, ret_type=ret_type, ty=ty)


class _Annotations:
    """Inferred types as annotations: a size that occurs more than once gets a name, any other unknown is ``?``."""

    def __init__(self, types: list[Type]) -> None:
        dims = [d for t in types for d in dims_of(t) if const(d) is None]
        written = {d: name for d in dims if (name := name_of(d)) is not None}
        names = Names(set(written.values()))
        self._known: dict[Dim, Dim] = {d: d for d in written}
        for d in dims:
            if d not in self._known and dims.count(d) > 1:
                self._known[d] = sym(names("c"))

    def __call__(self, ty: Type) -> Type:
        """The annotation for ``ty``."""
        match ty:
            case TensorType():
                return TensorType(tuple(d if const(d) is not None else self._known.get(d, ANY) for d in ty.shape), ty.dtype)
            case TupleType():
                return TupleType(tuple(map(self, ty.fields)))
            case FuncType():
                return _Annotations([*ty.params])._function(ty)
        return ty

    def _function(self, ty: FuncType) -> FuncType:
        return FuncType(tuple(map(self, ty.params)), self(ty.result))


def _closure(name: GlobalVar, out: list[tuple[Var, Expr]]) -> Var:
    """A global function as a value."""
    var = Var(f"{name.name}_closure", span=name.span, ty=name.ty)
    out.append((var, Call(ALLOC_CLOSURE, (name,), NoAttrs(), span=name.span, ty=name.ty)))
    return var


def _typed(var: Var) -> Type:
    assert var.ty is not None
    return var.ty
