"""Infer the type of every node; insert run-time checks where an annotation is more precise than the inferred type.

    def @main(%x: Tensor[(?, 4), float32]) {        every node has a type, e.g. Tensor[(?, 4), float32];
      let %y: Tensor[(3, 4), float32] = exp(%x);     let %exp = exp(%x);
      %y                                        ->   let %y = vm.assert_shape(%exp, dims=[3, -1]);
    }                                                %y: Tensor[(3, 4), float32]

Requires: A-normal form.
Ensures: ``ty`` of every node is set; annotations hold; a ``?n`` of a parameter is ``sym("n")``, a ``?`` a symbol of its own;
every parameter has an annotation (see ``type_inference.parameter_types``).
Raises TypeCheckError with every independent mistake of the module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial

from ...ops.core.similar_names import nearest
from ...ops.core.tensor_types import MAX_FIELDS, TypeTooLarge
from ...vm.diagnostics import codes
from ...vm.diagnostics.source import Diagnostic, TypeCheckError
from ..ir.call_graph import CallEdges
from ..ir.expr import Expr, Function, GlobalVar, IRModule, Var, replace, type_of
from ..ir.pass_declaration import declare_pass
from ..ir.well_formed import check_nesting
from ..type_inference.adt_rules import AdtTyper
from ..type_inference.function_signature import BOTTOM, FAILED, Signature, closed_result
from ..type_inference.parameter_types import MakeTyper, infer_parameters
from ..type_inference.settled_values import settled_values
from ..type_inference.typing_rules import FunctionTyper


@declare_pass("InferType", "to_a_normal_form", "monomorphize")
def infer_type(mod: IRModule) -> IRModule:
    """The module with types.  Raises TypeCheckError."""
    return _inferred(mod, FunctionTyper)[0]


def infer_sizes(mod: IRModule, before: IRModule | None = None) -> IRModule:
    """The module with types that have the sizes which it takes from shapes and computes, too.  Raises TypeCheckError.

    Where a use refuses such a size, the types are those of ``infer_type``: the program fails at run time, if it runs there.
    ``before``: a typed module in A-normal form; values of both modules keep their types.
    """
    settled = frozenset[Expr]() if before is None else settled_values(before)
    try:
        return _inferred(mod, partial(FunctionTyper, follows_sizes=True, settled=settled))[0]
    except TypeCheckError:
        return infer_type(mod)


#: Types for a module that a pass has made of a typed one, which is the second argument.
Infer = Callable[[IRModule, IRModule], IRModule]


def retyped(mod: IRModule, before: IRModule, infer: Infer = infer_sizes) -> IRModule:
    """``mod``, which a pass has made of the typed ``before``, with types; ``before`` if no body differs.

    Raises TypeCheckError.
    """
    return before if all(mod.functions[n].body is f.body for n, f in before.functions.items()) else infer(mod, before)


def variable_types(mod: IRModule) -> tuple[IRModule, Mapping[Var, Var]]:
    """The module with types, and the typed variable of each variable of ``mod``.  Raises TypeCheckError."""
    typed: dict[Var, Var] = {}
    out, annotated = _inferred(mod, partial(FunctionTyper, typed=typed))
    return out, {**typed, **{param: typed[new] for param, new in annotated.items() if new in typed}}


def _inferred(mod: IRModule, typer: MakeTyper) -> tuple[IRModule, Mapping[Var, Var]]:
    """The module with types by the rules of ``typer``, and the annotated parameters of ``Inferred``.  Raises TypeCheckError."""
    check_nesting(mod)
    for name, function in mod.functions.items():
        _check_parameters(name, function)
    inferred = infer_parameters(mod, _ModuleTyper)
    module = _ModuleTyper(inferred.module, typer)
    typed = module.type_functions(mod.functions)
    errors = [*inferred.errors, *map(inferred.explained, module.errors)]
    if errors or inferred.dependent:
        raise TypeCheckError(sorted(errors or inferred.dependent, key=_place))
    return typed, inferred.annotated


class _ModuleTyper:
    """The typer of all functions of a module; ``typer`` makes the typer of each.  ``errors`` collects diagnostics."""

    def __init__(self, mod: IRModule, typer: MakeTyper) -> None:
        self.mod, self.typer = mod, typer
        self.errors: list[Diagnostic] = []
        self.adts = AdtTyper(mod.type_definitions)
        self.edges = CallEdges.of(mod)
        self.groups, self.callers = self.edges.groups(), self.edges.callers()
        self.signatures = {name: self._declared(name) for name in mod.functions}
        self.typed: dict[str, Function] = {}

    def _declared(self, name: str) -> Signature:
        return Signature.declared(f"@{name}", self.mod[name], self.errors.append)

    def change(self, functions: Mapping[str, Function]) -> None:
        """Replace functions of the module; they are to be typed again."""
        self.mod = replace(self.mod, functions={**self.mod.functions, **functions})

    def type_functions(self, names: Collection[str]) -> IRModule:
        """Type these functions, and the callers of each whose result changes.  The module with all typed functions."""
        wanted = set(names)
        for group in self.groups:
            if wanted.isdisjoint(group):
                continue
            before = [str(self.signatures[name].result) for name in group]
            if group[0] in self.typed:  # results of recursive functions are found anew
                self.signatures.update({name: self._declared(name) for name in group})
            self._type_group(group)
            for name, result in zip(group, before, strict=True):
                if str(self.signatures[name].result) != result:
                    wanted.update(self.callers[name])
        return replace(self.mod, functions={name: self.typed[name] for name in self.mod.functions})

    def _type_group(self, group: list[str]) -> None:
        deferred = self._find_results(group) if len(group) > 1 or self._calls_itself(group[0]) else []
        errors_before = len(self.errors)
        for name in group:
            typer = self.typer(self.lookup, self.errors, self.adts)
            try:
                self.typed[name] = typer.function(self.mod[name], self.signatures[name])
            except TypeTooLarge as error:
                message = f"the type of @{name} is too large: {error}"
                raise TypeCheckError(message, self.mod[name].span, help=error.help, code=codes.Type.SIZE) from None
            result = type_of(self.typed[name].body)
            if result is not FAILED or self.mod[name].ret_type is None:
                self.signatures[name] = replace(self.signatures[name], result=result)
        if len(self.errors) == errors_before:
            self.errors += deferred

    def _calls_itself(self, name: str) -> bool:
        return name in self.edges.callees[name]

    def _find_results(self, group: list[str]) -> list[Diagnostic]:
        """Infer the results of recursive functions without ``->``, by fixed-point iteration from BOTTOM.

        Returns the errors that made a result FAILED.  The typing that follows reports no error that depends on such a result,
        because an expression with a FAILED operand fails without a message.
        """
        unknown = [n for n in group if self.signatures[n].result is BOTTOM]
        deferred: list[Diagnostic] = []
        changed = bool(unknown)
        while changed:
            changed = False
            for name in unknown:
                signature = self.signatures[name]
                reported: list[Diagnostic] = []
                typed = self.typer(self.lookup, reported, self.adts).function(self.mod[name], signature)
                result = closed_result(type_of(typed.body), signature)
                if result != signature.result:
                    changed = True
                    deferred += reported if result is FAILED else []
                self.signatures[name] = replace(signature, result=result)
        for name in unknown:
            if self.signatures[name].result is BOTTOM:
                self._cannot_be_inferred(name)
        return deferred

    def _cannot_be_inferred(self, name: str) -> None:
        message = f"the result type of @{name} cannot be inferred: every path through it calls it again"
        help = f"annotate it: def @{name}(...) -> T {{ ... }}"
        self.errors.append(Diagnostic(message, self.mod[name].span, help=help, code=codes.Type.ANNOTATION))
        self.signatures[name] = replace(self.signatures[name], result=FAILED)

    def lookup(self, name: GlobalVar) -> Signature | Diagnostic:
        """The signature of a global function, or the diagnostic of an unknown name."""
        found = self.signatures.get(name.name)
        if found is not None:
            return found
        return Diagnostic(
            f"unknown function @{name.name}{nearest(name.name, self.signatures, '@{}')}",
            name.span,
            code=codes.Type.UNKNOWN,
        )


def _check_parameters(name: str, function: Function) -> None:
    count = len(function.params)
    if count > MAX_FIELDS:
        message = f"@{name} has {count} parameters; at most {MAX_FIELDS} are possible"
        raise TypeCheckError(
            message, function.params[MAX_FIELDS].span, help="put some of them together in a tuple", code=codes.Type.SIZE
        )


def _place(error: Diagnostic) -> tuple[str, int]:
    return (error.span.source.name, error.span.start) if error.span is not None else ("", -1)
