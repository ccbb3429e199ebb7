"""Types of parameters without an annotation, from their uses.

    def @main(%x: Tensor[(?, 784), float32], %w) {      %w becomes %w: Tensor[(128, 784), float32]
      nn.dense(%x, %w, units=128)
    }

In rounds, the module is typed with a typer that collects the types that uses give to open parameters.  A use is a call of an
operator that determines its inputs (``ops.core.input_types``), of a function that annotates the parameter, or a place with
an annotation: a ``let``, a result, the other branch of an ``if``.  A parameter that no use determines has the type of the
arguments of all calls of its function.  The types become annotations; the typing that follows checks every use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from ...ops.core.input_types import infer_inputs
from ...ops.core.op import Op, TypeRelError
from ...ops.core.tensor_types import FuncType, Type
from ...shape_funcs.symbolic.dim import ANY, INT, Dim, fresh, name_of, substitute
from ...vm.diagnostics.source import Diagnostic, Span
from ..ir.anf import rebuild, rebuild_lets, values
from ..ir.expr import Call, Expr, Function, GlobalVar, If, IRModule, Var, let_chain, replace
from .adt_rules import AdtTyper
from .call_rules import type_note
from .function_signature import BOTTOM, FAILED, Signature, declare, without_type
from .type_match import Binder, TypeMismatch, join, map_dims
from .typing_rules import FunctionTyper

#: A text with its place, as in ``Diagnostic.notes``.
Note = tuple[str, Span | None]
Lookup = Callable[[GlobalVar], Signature | Diagnostic]
#: The typer of one global function, from ``lookup``, the list of errors and the typer of ADTs (see ``FunctionTyper``).
MakeTyper = Callable[[Lookup, list[Diagnostic], AdtTyper], FunctionTyper]
#: Types every function of a module with the typers made.
TypeFunctions = Callable[[IRModule, MakeTyper], object]
#: The function that nobody in the module calls with the program's arguments.
_ENTRY = "main"


@dataclass(frozen=True)
class Inferred:
    """The module with annotated parameters.

    ``errors``: a diagnostic per parameter without a type; its annotation is FAILED.  ``dependent``: the same for parameters whose
    uses depend on other values without a type; another error is then the cause.  ``origins``: for each note on the type of an
    inferred parameter, the note on the use that gave the type.
    """

    module: IRModule
    errors: Sequence[Diagnostic] = ()
    dependent: Sequence[Diagnostic] = ()
    origins: Mapping[Note, Note] = field(default_factory=dict)

    def explained(self, error: Diagnostic) -> Diagnostic:
        """The diagnostic with the origin of each inferred type in its notes."""
        notes = [n for note in error.notes for n in (note, self.origins.get(note)) if n is not None]
        return replace(error, notes=tuple(dict.fromkeys(notes)))


def infer_parameters(mod: IRModule, type_functions: TypeFunctions) -> Inferred:
    """``mod``, in A-normal form, with an annotation for each parameter.

    A size that is neither a number nor named in the parameter's function becomes ``?``.
    """
    if not any(p.annotation is None for f in _functions(mod) for p in f.params):
        return Inferred(mod)
    origins: dict[Note, Note] = {}
    errors: list[Diagnostic] = []
    while True:
        round_ = _Round()
        type_functions(mod, partial(_ParameterTyper, round_=round_))
        found = round_.found or round_.of_arguments(errors, partly=False) or round_.of_arguments(errors, partly=True)
        if not found:
            break
        for param, (ty, use) in found.items():
            origins[type_note(replace(param, ty=ty))] = use
        mod = _annotated(mod, {param: ty for param, (ty, _) in found.items()})
    without = {p: without_type(p, owner, round_.reasons.get(p)) for p, (owner, _) in round_.open.items()}
    errors += [error for p, error in without.items() if not round_.depends(p)]
    dependent = [error for p, error in without.items() if round_.depends(p)]
    return Inferred(_annotated(mod, dict.fromkeys(without, FAILED)), errors, dependent, origins)


# ---- functions of a module -------------------------------------------------------------------------------------------


def _functions(mod: IRModule) -> Iterator[Function]:
    """The global functions of a module and the functions in them."""
    for function in mod.functions.values():
        yield function
        yield from (value for value in values(function.body) if isinstance(value, Function))


def _annotated(mod: IRModule, types: Mapping[Var, Type]) -> IRModule:
    """The module with annotations for these parameters."""
    new = {param: replace(param, annotation=ty) for param, ty in types.items()}

    def atom(expr: Expr) -> Expr:
        return new.get(expr, expr) if isinstance(expr, Var) else expr

    def chain(expr: Expr) -> Expr:
        bindings, result = let_chain(expr)
        return rebuild_lets(expr, [(var, value(x)) for var, x in bindings], atom(result))

    def value(expr: Expr) -> Expr:
        rebuilt = rebuild(expr, atom, chain)
        return with_params(rebuilt) if isinstance(rebuilt, Function) else rebuilt

    def with_params(function: Function) -> Function:
        if not any(p in new for p in function.params):
            return function
        return replace(function, params=tuple(new.get(p, p) for p in function.params))

    functions = {name: with_params(replace(f, body=chain(f.body))) for name, f in mod.functions.items()}
    return replace(mod, functions=functions)


# ---- one round -------------------------------------------------------------------------------------------------------


class _Round:
    """The knowledge of one round about the open parameters of a module.

    ``open``: their functions' names in messages, and the named sizes in scope; ``found``: the types, each with the note on its
    use; ``arguments``: per parameter the arguments of its function's calls, None for an unknown type; ``reasons``: the first use
    that does not determine the parameter; ``waiting``: the parameters with a use that would if other types were known.
    """

    def __init__(self) -> None:
        self.open: dict[Var, tuple[str, Mapping[str, Dim]]] = {}
        self.found: dict[Var, tuple[Type, Note]] = {}
        self.arguments: dict[Var, dict[Expr, tuple[Type | None, Span | None]]] = {}
        self.reasons: dict[Var, Note] = {}
        self.waiting: set[Var] = set()

    def depends(self, param: Var) -> bool:
        """Whether the parameter would have a type if other values had."""
        return param in self.waiting or param in self.arguments

    def solve(self, param: Var, ty: Type, use: Span | None) -> None:
        """Give an open parameter its type, with ``?`` for sizes that have no name in its function."""
        _, names = self.open[param]

        def change(d: Dim) -> Dim:
            name = name_of(d)
            return d if d.op == INT or (name is not None and names.get(name) is d) else ANY

        # the names in a function type are its own
        annotation = ty if isinstance(ty, FuncType) else map_dims(ty, change)
        self.found[param] = annotation, (f"%{param.name} has its type from here", use)

    def of_arguments(self, errors: list[Diagnostic], partly: bool) -> dict[Var, tuple[Type, Note]]:
        """The types of parameters from the arguments of all calls; ``partly``: although some are unknown.

        Contradictions are added to ``errors``; the type is then FAILED.
        """
        found: dict[Var, tuple[Type, Note]] = {}
        for param, given in self.arguments.items():
            known = [(map_dims(ty, _number_or_any), span) for ty, span in given.values() if ty is not None]
            if param not in self.open or not known or (len(known) < len(given) and not partly):
                continue
            (ty, span), *others = known
            for other, place in others:
                try:
                    ty = join(ty, other, lambda: ANY)
                except TypeMismatch:
                    errors.append(_contradiction(param, self.open[param][0], (known[0], (other, place))))
                    ty = FAILED
                    break
            found[param] = ty, (f"%{param.name} has its type from this call", span)
        return found


def _number_or_any(d: Dim) -> Dim:
    return d if d.op == INT else ANY


def _contradiction(param: Var, owner: str, given: Sequence[tuple[Type, Span | None]]) -> Diagnostic:
    message = f"parameter %{param.name} of {owner} has no type, and calls give it different types"
    notes = tuple((f"this call gives {ty}", span) for ty, span in given)
    help = f"annotate it, or write a function for each type: %{param.name}: {given[0][0]}"
    return replace(without_type(param, owner, None), message=message, notes=notes, help=help)


class _ParameterTyper(FunctionTyper):
    """A typer that collects types of open parameters in ``round_``.

    An open parameter is FAILED until a use gives its type, so its users fail without a message.
    """

    def __init__(self, lookup: Lookup, errors: list[Diagnostic], adts: AdtTyper, round_: _Round) -> None:
        super().__init__(lookup, errors, adts)
        self.round = round_
        self.original: dict[Expr, Var] = {}  # the open parameter of a typed atom
        self.functions: dict[Var, Function] = {}  # functions bound to variables

    # ---- collecting open parameters ----

    def function(self, function: Function, signature: Signature) -> Function:
        names = {**self.names, **signature.names}
        types = list(signature.params)
        for i, param in enumerate(function.params):
            if param.annotation is None:
                self.round.open[param] = signature.name, names
                if param in self.round.found:  # a function may be typed several times in a round
                    types[i] = declare(self.round.found[param][0], dict(names), (), fresh)
        return super().function(function, replace(signature, params=tuple(types)))

    def _closure(self, var: Var, function: Function) -> Expr:
        self.functions[var] = function
        return super()._closure(var, function)

    def _atom(self, atom: Expr) -> Expr:
        typed = super()._atom(atom)
        if isinstance(atom, Var) and atom in self.round.open:
            self.original[typed] = atom
        return typed

    def _is_open(self, atom: Expr) -> bool:
        return atom in self.original and self.original[atom] not in self.round.found

    def _solve(self, atom: Expr, ty: Type | None, use: Span | None) -> None:
        """Give the parameter of a typed atom its type, if it is open and the type is known."""
        if ty in (None, FAILED, BOTTOM) or not self._is_open(atom):
            return
        assert ty is not None
        param = self.original[atom]
        self.round.solve(param, ty, use)
        if param in self.env:
            self.env[param] = replace(param, ty=declare(self.round.found[param][0], self.names, (), fresh))

    # ---- uses ----

    def _call(self, call: Call) -> Expr:
        args = tuple(map(self._atom, call.args))
        if isinstance(call.op, Op):
            if any(map(self._is_open, args)):
                self._operator_use(call, call.op, args)
        else:
            self._function_use(call, args)
        return super()._call(call)

    def _operator_use(self, call: Call, op: Op, args: Sequence[Expr]) -> None:
        wanted: Sequence[Type | None] = (None,) * len(args)
        refusal = ""
        try:
            wanted = infer_inputs(op, [_known(a) for a in args], call.attrs)
        except TypeRelError as error:
            refusal = error.message
        for i, (arg, ty) in enumerate(zip(args, wanted, strict=True)):
            if ty is None and self._is_open(arg):
                param = self.original[arg]
                reason = refusal or f"{op.name} does not determine the type of its argument {i + 1}"
                self.round.reasons.setdefault(param, (reason, call.span))
                if i > 0 and op.infer_inputs is not None and _known(args[0]) is None:
                    self.round.waiting.add(param)
            self._solve(arg, ty, call.span)

    def _function_use(self, call: Call, args: Sequence[Expr]) -> None:
        function, wanted = self._callee(call.op)
        if len(wanted) != len(args):
            return
        binder = Binder()
        for arg, want in zip(args, wanted, strict=True):
            self._bind(binder, arg, want)
        for i, (arg, want) in enumerate(zip(args, wanted, strict=True)):
            if isinstance(want, FuncType):
                self._function_argument(arg, want, call.span)
                annotation = None if function is None else function.params[i].annotation
                want = annotation or want  # with the names of its sizes
            elif want not in (FAILED, BOTTOM):
                want = map_dims(want, lambda d: substitute(d, binder.sizes) if d is not ANY else d)
            if want is FAILED and self._is_open(arg):
                self.round.waiting.add(self.original[arg])
            self._solve(arg, want, call.span)
        if function is not None:
            for param, arg in zip(function.params, args, strict=True):
                self._offer(param, call, _known(arg))

    def _callee(self, callee: Op | Expr) -> tuple[Function | None, Sequence[Type]]:
        """The called function, if it is known and not the program's entry, and the types of its parameters."""
        assert isinstance(callee, Expr)
        if isinstance(callee, GlobalVar):
            signature = self.lookup(callee)
            if isinstance(signature, Diagnostic):
                return None, ()
            return signature.function if callee.name != _ENTRY else None, signature.params
        atom = self._atom(callee)
        function = self.functions.get(callee) if isinstance(callee, Var) else None
        if isinstance(atom.ty, FuncType):
            return function, atom.ty.params
        return function, (FAILED,) * (0 if function is None else len(function.params))

    def _bind(self, binder: Binder, arg: Expr, want: Type) -> None:
        """Bind the sizes of a known argument."""
        known = _known(arg)
        if known is None or want in (FAILED, BOTTOM):
            return
        try:
            binder.match(known, want, arg)
        except TypeMismatch:
            return  # reported by the typing that follows

    def _function_argument(self, arg: Expr, want: FuncType, use: Span | None) -> None:
        """Offer the parameters' types of a function type to the function that is passed."""
        function: Function | None = None
        if isinstance(arg, GlobalVar):
            signature = self.lookup(arg)
            function = None if isinstance(signature, Diagnostic) else signature.function
        else:
            names = [var for var, typed in self.env.items() if typed is arg and var in self.functions]
            function = self.functions[names[0]] if names else None
        if function is not None and len(function.params) == len(want.params):
            for param, ty in zip(function.params, want.params, strict=True):
                self._offer(param, Call(arg, (), span=use), ty)

    def _offer(self, param: Var, call: Call, ty: Type | None) -> None:
        if param.annotation is None:
            self.round.arguments.setdefault(param, {})[call] = ty, call.span

    def _serve(self, atom: Expr, want: Type, what: str) -> Expr:
        self._solve(atom, want, atom.span)
        return super()._serve(atom, want, what)

    def _binding(self, var: Var, value: Expr, want: Type | None, what: str) -> None:
        if var.annotation is not None and isinstance(value, Var) and value in self.env:
            self._solve(self._atom(value), declare(var.annotation, dict(self.names), (), lambda: ANY), var.span)
        super()._binding(var, value, want, what)

    def _if(self, value: If, want: Type | None, what: str) -> Expr:
        typed = super()._if(value, want, what)
        assert isinstance(typed, If)
        then, other = (let_chain(branch)[1] for branch in (typed.true_branch, typed.false_branch))
        self._solve(then, other.ty, value.span)
        self._solve(other, then.ty, value.span)
        return typed


def _known(atom: Expr) -> Type | None:
    return None if atom.ty in (FAILED, BOTTOM) else atom.ty
