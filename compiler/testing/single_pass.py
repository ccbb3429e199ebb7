"""Single expressions through a pass: ``run_opt_pass``, ``run_infer_type``."""

from __future__ import annotations

from collections.abc import Sequence

from ...vm.diagnostics.argument_errors import wrong
from ..builder.build import as_expr
from ..builder.module_methods import closed_function
from ..ir.expr import Expr, Function, IRModule
from ..transform.declared.declared_passes import declared_passes
from ..transform.module_pass import Pass, Sequential


def run_opt_pass(expr: Expr, opt_pass: Pass | Sequence[Pass]) -> Expr:
    """``expr`` after a pass, or several: a function, or the body of the function of its free variables.

    Raises ArgumentError for anything but an expression and passes.
    """
    expr = as_expr(expr)
    run = Sequential(opt_pass) if isinstance(opt_pass, (list, tuple)) else opt_pass
    if not isinstance(run, Pass):
        raise wrong("run_opt_pass: the pass", "a pass or a list of passes", run, "such as relay.transform.FoldConstant()")
    main = run(IRModule({"main": closed_function(expr)}))["main"]
    return main if isinstance(expr, Function) else main.body


def run_infer_type(expr: Expr) -> Expr:
    """``expr`` with types, in A-normal form.  Raises TypeCheckError."""
    return run_opt_pass(expr, declared_passes()["InferType"]())
