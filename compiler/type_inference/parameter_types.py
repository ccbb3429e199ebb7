"""Types of parameters without an annotation, from their uses.

    def @main(%x: Tensor[(?, 784), float32], %w) {      %w becomes %w: Tensor[(128, 784), float32]
      nn.dense(%x, %w, units=128)
    }

In rounds, the module is typed with a typer that collects the types that uses give to open parameters.  A use is a call of an
operator that determines its inputs (``ops.core.input_types``), of a function that annotates the parameter, the condition of an
``if``, or a place with an annotation: a ``let``, a result, the other branch of an ``if``.  A parameter that no use determines
has the type of the arguments of all calls of its function.  The types become annotations; the typing that follows checks every
use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import Protocol

from ...declarations.frozen_dataclass import frozen
from ...ops.core.input_types import infer_inputs
from ...ops.core.op import Op, TypeRelError
from ...ops.core.tensor_types import FuncType, Type, scalar
from ...shape_funcs.symbolic.dim import ANY, INT, Dim, fresh, name_of
from ...shape_funcs.symbolic.dim_operations import substitute
from ...vm.diagnostics.source import Diagnostic, Span
from ..ir.anf import rebuild, rebuild_lets, values
from ..ir.call_graph import CallEdges
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
#: Types of parameters, each with the note on its origin.
_Types = dict[Var, tuple[Type, Note]]
#: The type of an argument, None if it is unknown, and the place of the call.
_Argument = tuple[Type | None, Span | None]
#: The function that nobody in the module calls with the program's arguments.
_ENTRY = "main"


class ModuleTyper(Protocol):
    """The typer of the functions of a module, which keeps their signatures."""

    def type_functions(self, names: Collection[str]) -> object:
        """Type these functions, and the callers of each whose result changes."""

    def change(self, functions: Mapping[str, Function]) -> None:
        """Replace functions of the module; they are to be typed again."""


@frozen
class Inferred:
    """The module with annotated parameters.

    ``errors``: a diagnostic per parameter without a type; its annotation is FAILED.  ``dependent``: the same for parameters whose
    uses depend on other values without a type; another error is then the cause.  ``origins``: for each note on the type of an
    inferred parameter, the note on the use that gave the type.  ``annotated``: the parameter with an annotation in the place of
    each that had none.
    """

    module: IRModule
    errors: Sequence[Diagnostic] = ()
    dependent: Sequence[Diagnostic] = ()
    origins: Mapping[Note, Note] = field(default_factory=dict)
    annotated: Mapping[Var, Var] = field(default_factory=dict)

    def explained(self, error: Diagnostic) -> Diagnostic:
        """The diagnostic with the origin of each inferred type in its notes."""
        notes = [n for note in error.notes for n in (note, self.origins.get(note)) if n is not None]
        return replace(error, notes=tuple(dict.fromkeys(notes)))


def infer_parameters(mod: IRModule, typer_of: Callable[[IRModule, MakeTyper], ModuleTyper]) -> Inferred:
    """``mod``, in A-normal form, with an annotation for each parameter.

    A size that is neither a number nor named in the parameter's function becomes ``?``.  A round types the functions whose types
    changed in the round before, and their callers.
    """
    if not any(p.annotation is None for f in _functions(mod) for p in f.params):
        return Inferred(mod)
    return _Inference(mod, typer_of).run()


class _Inference:
    def __init__(self, mod: IRModule, typer_of: Callable[[IRModule, MakeTyper], ModuleTyper]) -> None:
        self.mod, self.functions = mod, dict(mod.functions)
        self.uses: dict[str, _Uses] = {}
        self.typer = typer_of(mod, partial(_ParameterTyper, uses=self.uses))
        self.origins: dict[Note, Note] = {}
        self.annotated: dict[Var, Var] = {}
        self.errors: list[Diagnostic] = []

    def run(self) -> Inferred:
        calling = CallEdges.of(self.mod).callers()
        names = set(self.functions)
        while names:
            self.typer.type_functions(names)
            found = self._of_uses() or self._of_arguments(partly=False) or self._of_arguments(partly=True)
            for param, (ty, use) in found.items():
                self.origins[type_note(replace(param, ty=ty))] = use
            names = self._annotate({param: ty for param, (ty, _) in found.items()})
            names |= {caller for name in names for caller in calling[name]}
        left = [(p, owner, uses.reasons.get(p)) for uses in self.uses.values() for p, (owner, _) in uses.open.items()]
        given = self._arguments()
        waiting = {p for uses in self.uses.values() for p in uses.waiting} | {*given}
        dependent = [without_type(*open_) for open_ in left if open_[0] in waiting]
        self.errors += [without_type(*open_) for open_ in left if open_[0] not in waiting]
        self._annotate({p: FAILED for p, _, _ in left})
        return Inferred(replace(self.mod, functions=self.functions), self.errors, dependent, self.origins, self.annotated)

    def _annotate(self, types: Mapping[Var, Type]) -> set[str]:
        """Annotate these parameters.  The names of the changed functions."""
        changed = {name for name, uses in self.uses.items() if any(p in types for p in uses.open)}
        params = {param: replace(param, annotation=ty) for param, ty in types.items()}
        self.annotated.update(params)
        new = {name: _annotated(self.functions[name], params) for name in changed}
        self.functions.update(new)
        self.typer.change(new)
        return changed

    def _of_uses(self) -> _Types:
        return {param: found for uses in self.uses.values() for param, found in uses.found.items()}

    def _arguments(self) -> dict[Var, list[_Argument]]:
        """The arguments of all calls for each open parameter."""
        given: dict[Var, list[_Argument]] = {p: [] for uses in self.uses.values() for p in uses.open}
        for uses in self.uses.values():
            for param, arguments in uses.arguments.items():
                if param in given:
                    given[param] += arguments.values()
        return {param: arguments for param, arguments in given.items() if arguments}

    def _of_arguments(self, partly: bool) -> _Types:
        """The types of parameters from the arguments of all calls; ``partly``: although some are unknown.

        The type of a parameter with contradicting arguments is FAILED, with an error.
        """
        owners = {p: owner for uses in self.uses.values() for p, (owner, _) in uses.open.items()}
        found: _Types = {}
        for param, given in self._arguments().items():
            known = [(map_dims(ty, _number_or_any), span) for ty, span in given if ty is not None]
            if not known or (len(known) < len(given) and not partly):
                continue
            (ty, span), *others = known
            for other, place in others:
                try:
                    ty = join(ty, other, lambda: ANY)
                except TypeMismatch:
                    self.errors.append(_contradiction(param, owners[param], (known[0], (other, place))))
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


# ---- functions of a module -------------------------------------------------------------------------------------------


def _functions(mod: IRModule) -> Iterator[Function]:
    """The global functions of a module and the functions in them."""
    for function in mod.functions.values():
        yield function
        yield from (value for value in values(function.body) if isinstance(value, Function))


def _annotated(function: Function, new: Mapping[Var, Var]) -> Function:
    """The function with these parameters, annotated, in the place of its own and of those of the functions in it."""

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

    return with_params(replace(function, body=chain(function.body)))


# ---- uses in a function ----------------------------------------------------------------------------------------------


class _Uses:
    """The uses of open parameters in one global function.

    ``open``: the open parameters, its own and of the functions in it: the function's name in messages, and the named sizes in
    scope; ``found``: the types, each with the note on its use; ``reasons``: the first use that does not determine the parameter;
    ``waiting``: the parameters with a use that would if other types were known; ``arguments``: the arguments of calls for
    parameters of any function, by call.
    """

    def __init__(self) -> None:
        self.open: dict[Var, tuple[str, Mapping[str, Dim]]] = {}
        self.found: _Types = {}
        self.arguments: dict[Var, dict[Expr, _Argument]] = {}
        self.reasons: dict[Var, Note] = {}
        self.waiting: set[Var] = set()

    def solve(self, param: Var, ty: Type, use: Span | None) -> None:
        """Give an open parameter its type, with ``?`` for sizes that have no name in its function."""
        _, names = self.open[param]

        def change(d: Dim) -> Dim:
            name = name_of(d)
            return d if d.op == INT or (name is not None and names.get(name) is d) else ANY

        # the names in a function type are its own
        annotation = ty if isinstance(ty, FuncType) else map_dims(ty, change)
        self.found[param] = annotation, (f"%{param.name} has its type from here", use)


class _ParameterTyper(FunctionTyper):
    """A typer that collects the uses of open parameters in ``uses``, under the name of the global function.

    An open parameter is FAILED until a use gives its type, so its users fail without a message.
    """

    def __init__(self, lookup: Lookup, errors: list[Diagnostic], adts: AdtTyper, uses: dict[str, _Uses]) -> None:
        super().__init__(lookup, errors, adts)
        self.all_uses, self.uses = uses, _Uses()
        self.is_outermost = True
        self.original: dict[Expr, Var] = {}  # the open parameter of a typed atom
        self.functions: dict[Var, Function] = {}  # functions bound to variables

    # ---- collecting open parameters ----

    def function(self, function: Function, signature: Signature) -> Function:
        if self.is_outermost:
            self.all_uses[signature.name.removeprefix("@")] = self.uses
            self.is_outermost = False
        names = {**self.names, **signature.names}
        types = list(signature.params)
        for i, param in enumerate(function.params):
            if param.annotation is None:
                self.uses.open[param] = signature.name, names
                if param in self.uses.found:  # an inner function may be typed several times
                    types[i] = declare(self.uses.found[param][0], dict(names), (), fresh)
        return super().function(function, replace(signature, params=tuple(types)))

    def _closure(self, var: Var, function: Function) -> Expr:
        self.functions[var] = function
        return super()._closure(var, function)

    def _atom(self, atom: Expr) -> Expr:
        typed = super()._atom(atom)
        if isinstance(atom, Var) and atom in self.uses.open:
            self.original[typed] = atom
        return typed

    def _is_open(self, atom: Expr) -> bool:
        return atom in self.original and self.original[atom] not in self.uses.found

    def _solve(self, atom: Expr, ty: Type | None, use: Span | None) -> None:
        """Give the parameter of a typed atom its type, if it is open and the type is known."""
        if ty in (None, FAILED, BOTTOM) or not self._is_open(atom):
            return
        assert ty is not None
        param = self.original[atom]
        self.uses.solve(param, ty, use)
        if param in self.env:
            self.env[param] = replace(param, ty=declare(self.uses.found[param][0], self.names, (), fresh))

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
                self.uses.reasons.setdefault(param, (reason, call.span))
                if i > 0 and op.infer_inputs is not None and _known(args[0]) is None:
                    self.uses.waiting.add(param)
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
                self.uses.waiting.add(self.original[arg])
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
            self.uses.arguments.setdefault(param, {})[call] = ty, call.span

    def _serve(self, atom: Expr, want: Type, what: str) -> Expr:
        self._solve(atom, want, atom.span)
        return super()._serve(atom, want, what)

    def _binding(self, var: Var, value: Expr, want: Type | None, what: str) -> None:
        if var.annotation is not None and isinstance(value, Var) and value in self.env:
            self._solve(self._atom(value), declare(var.annotation, dict(self.names), (), lambda: ANY), var.span)
        super()._binding(var, value, want, what)

    def _if(self, value: If, want: Type | None, what: str) -> Expr:
        if not value.constructor:
            self._solve(self._atom(value.cond), scalar("bool"), value.span)
        typed = super()._if(value, want, what)
        assert isinstance(typed, If)
        then, other = (let_chain(branch)[1] for branch in (typed.true_branch, typed.false_branch))
        self._solve(then, other.ty, value.span)
        self._solve(other, then.ty, value.span)
        return typed


def _known(atom: Expr) -> Type | None:
    return None if atom.ty in (FAILED, BOTTOM) else atom.ty
