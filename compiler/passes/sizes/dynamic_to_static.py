"""Replace a ``dyn.*`` operator whose shape inputs are known by its static form.

    dyn.reshape(%x, meta[relay.Constant][0])    ->    reshape(%x, newshape=[2, -1])

The rule is ``Op.static`` of the operator; the new call takes the arguments that are inputs of the static operator, by name.
Shape inputs are known if they are constants, or if their elements are numbers by the arithmetic of ``elements``.  A
``dyn.reshape`` and a ``dyn.strided_slice`` become static also with unknown sizes, if the attributes of the static form can
express these (``newshape``).  Shapes of int32 are taken to hold their sizes.

    let %s = shape_of(%x);                                // %x: Tensor[(?n, 4, 2), float32]
    let %n = strided_slice(%s, begin=[0], end=[1]);
    let %t = concatenate((%n, [-1]));              ->     let %y = reshape(%x, newshape=[0, -1]);
    let %y = dyn.reshape(%x, %t);                         let %z = reshape(%x, newshape=[0, -3]);
    let %z = dyn.reshape(%x, shape_of(%y));

A static form gives its variable its own type, so chains of any length become static in one walk.  Results of functions follow,
and the result types that functions declare.

Requires: typed A-normal form.
Ensures: the same, with the types of the static forms.  A function stays dynamic if the types of its static forms are refused:
such a program fails at run time, if it runs there.
"""

from __future__ import annotations

from collections.abc import Mapping

from ....ops.core.op import Op
from ....ops.core.tensor_types import TensorType, TupleType, Type
from ....shape_funcs.symbolic.dim import ANY, const, name_of
from ....vm.diagnostics.source import TypeCheckError
from ...ir.anf import rebuild, rebuild_lets
from ...ir.expr import (
    Call,
    Constant,
    Expr,
    Function,
    If,
    IRModule,
    Tuple,
    TupleGetItem,
    Var,
    let_chain,
    replace,
    type_of,
)
from ...ir.pass_declaration import declare_pass
from ...polymorphism.monomorphize import is_monomorphic
from ...rules.elements import ElementTable
from ...rules.static_forms import static_form
from ...type_inference.call_rules import Mistake, operator_type
from ...type_inference.type_match import TypeMismatch, join
from ..infer_type import Infer, infer_sizes, infer_type


@declare_pass("DynamicToStatic", "infer_type")
def dynamic_to_static(mod: IRModule, infer: Infer = infer_sizes) -> IRModule:
    """The module with static operators for known attributes; ``infer`` types a module made of a typed one."""
    before = mod
    while (static := _once(mod, infer)) is not mod:
        # the result of a function is known to its callers now
        mod = static
    if mod is before:
        return mod
    # without the sizes that the program computes
    plain = infer_type(before) if _declares_results(before) and is_monomorphic(before) else before
    return _with_result_types(mod, plain)


def _once(mod: IRModule, infer: Infer) -> IRModule:
    """The module after one walk over each function; ``mod`` itself if nothing changes."""
    rewritten = {}
    for name, f in mod.functions.items():
        body = f.body if f.is_primitive else _Rewriter().chain(f.body)
        if body is not f.body:
            rewritten[name] = replace(f, body=body)
    if not rewritten:
        return mod
    try:
        return infer(replace(mod, functions={**mod.functions, **rewritten}), mod)
    except TypeCheckError:
        return _each_alone(mod, rewritten, infer)


def _each_alone(mod: IRModule, rewritten: Mapping[str, Function], infer: Infer) -> IRModule:
    """The module with those of the rewritten functions whose types are accepted."""
    for name, function in rewritten.items():
        try:
            mod = infer(replace(mod, functions={**mod.functions, name: function}), mod)
        except TypeCheckError:
            continue
    return mod


class _Rewriter:
    """The rewriter of one function."""

    def __init__(self) -> None:
        self.known: dict[Expr, Constant] = {}
        # Relay's shapes are int32: a size that wraps there fails in the dynamic form, unless the tensor is empty
        self.elements = ElementTable(whole=("int64", "int32"))
        self.retyped: dict[Expr, Expr] = {}  # variables by the variables that have their former types
        self.fields: dict[Expr, tuple[Expr, ...]] = {}  # of tuples
        self.values: dict[Expr, Expr] = {}  # of variables

    def _atom(self, atom: Expr) -> Expr:
        return self.retyped.get(atom, atom)

    def chain(self, chain: Expr) -> Expr:
        """The chain with static forms.  A chain without a change is the same object."""
        bindings, result = let_chain(chain)
        out = []
        for var, value in bindings:
            new = self._typed(value, rebuild(value, self._atom, self.chain))
            if isinstance(new, Call):
                new = static_form(new, self.elements, self._data, self.values.get)
            bound = self._variable(var, value, new)
            self.elements.bind(bound, new)
            self.values[bound] = new
            if isinstance(new, Constant):
                self.known[bound] = new
            if isinstance(new, Tuple):
                self.fields[bound] = new.fields
            out.append((bound, new))
        return rebuild_lets(chain, out, self._atom(result))

    def _variable(self, var: Var, old: Expr, new: Expr) -> Var:
        """The variable bound to ``new``: ``var``, or a variable with the type of ``new``, which replaces it."""
        # an annotation may be more precise than the value
        if new.ty == old.ty or old.ty != var.ty:
            return var
        retyped = replace(var, ty=new.ty)
        self.retyped[var] = retyped
        return retyped

    def _typed(self, old: Expr, new: Expr) -> Expr:
        """``new``, made of ``old``, with the type that follows from the types of its parts."""
        if new is old:
            return old
        match new:
            case Tuple():
                return replace(new, ty=TupleType(tuple(map(type_of, new.fields))))
            case TupleGetItem() if isinstance(new.tuple_value.ty, TupleType):
                return replace(new, ty=new.tuple_value.ty.fields[new.index])
            case If():
                return replace(new, ty=_joined(new))
            case Call(op=Op()):
                return replace(new, ty=self._call_type(new))
        return new

    def _call_type(self, call: Call) -> Type:
        try:
            return operator_type(call, call.args, [self._data(a) for a in call.args], elements=self.elements)
        except Mistake:
            return type_of(call)

    def _data(self, atom: Expr) -> object:
        """The array of a constant, a tuple of these for a tuple, None for any other atom."""
        if atom in self.fields:
            return tuple(map(self._data, self.fields[atom]))
        known = self.known.get(atom, atom)
        return known.data if isinstance(known, Constant) else None


def _joined(value: If) -> Type:
    """The type of an ``if`` with new branches."""
    try:
        return join(type_of(value.true_branch), type_of(value.false_branch))
    except TypeMismatch:
        return type_of(value)


# ---- declared results ------------------------------------------------------------------------------------------------


def _declares_results(mod: IRModule) -> bool:
    return any(f.ret_type is not None for f in mod.functions.values())


def _with_result_types(mod: IRModule, before: IRModule) -> IRModule:
    """The module with the sizes found in declared result types; a size that was known ``before`` stays as declared."""
    functions = {}
    for name, f in mod.functions.items():
        if f.ret_type is not None:
            f = replace(f, ret_type=_found(f.ret_type, type_of(f.body), type_of(before[name].body), f))
        functions[name] = f
    return replace(mod, functions=functions)


def _found(declared: Type, now: Type, before: Type, function: Function) -> Type:
    """``declared``, with the sizes in ``now`` that a type of ``function`` can name, for each ``?``."""
    if isinstance(declared, TupleType) and isinstance(now, TupleType) and isinstance(before, TupleType):
        fields = zip(declared.fields, now.fields, before.fields, strict=True)
        return TupleType(tuple(_found(d, n, b, function) for d, n, b in fields))
    if not (isinstance(declared, TensorType) and isinstance(now, TensorType) and isinstance(before, TensorType)):
        return declared
    named = {d for p in function.params if isinstance(p.ty, TensorType) for d in p.ty.shape if name_of(d) is not None}
    sizes = zip(declared.shape, now.shape, before.shape, strict=True)
    shape = [n if d is ANY and n is not b and (const(n) is not None or n in named) else d for d, n, b in sizes]
    return TensorType(tuple(shape), declared.dtype)
