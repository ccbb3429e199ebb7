"""The compiler's own passes as classes, by Relay's names: ``declared_pass("InferType")()(mod)``.

The classes are derived from the declarations in ``compiler/passes``.  A pass's level is the least at which the pipeline runs it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ....ops.core.implementation import HOST
from ....ops.core.op import Op
from ....ops.core.similar_names import did_you_mean
from ....ops.kernels.weight_bits.weight_layout import BITS, LEAST_BLOCK
from ....vm.diagnostics.argument_errors import a_count, wrong
from ....vm.diagnostics.python_source import here
from ....vm.diagnostics.source import ArgumentError
from ...ir.anf import values
from ...ir.expr import Call, Expr, IRModule
from ...ir.lowering_context import LoweringContext
from ...ir.pass_declaration import DECLARED, PassDeclaration
from ...lowering import pipeline
from ...passes import to_basic_block_normal_form  # noqa: F401  declares the pass
from ...passes.constant_weights.fold_scale_axis import fold_scale_axis
from ...passes.constant_weights.forward_fold_scale_axis import forward_fold_scale_axis
from ...passes.constant_weights.quantize_weights import quantize_weights
from ...passes.sizes.flexible_shape_dispatch import flexible_shape_dispatch
from ...rules.requested_bounds import RULES as BOUNDS
from ...rules.requested_rules import RULES as REQUESTED
from ...settings.config import Config
from ..inlining import inline_values_used_once
from ..module_pass import Pass
from ..pass_context import PassContext, PassInfo
from ..requirements import apply, required_names
from ..shape_buckets import shape_buckets
from .rewriting_passes import REWRITING


class DeclaredPass(Pass):
    """One of the compiler's passes, with options for its function."""

    def __init__(self, name: str, function: str, **options: Any) -> None:
        self._declaration = DECLARED[function]
        self._options = options
        super().__init__(PassInfo(_level(function), name, required_names(self._declaration)))

    def prepare(self, mod: IRModule) -> IRModule:
        return mod  # the form in which the compiler needs it is made within ``transform``

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        return apply(self._declaration, mod, **self._options)


class FuseOps(DeclaredPass):
    """``fuse_opt_level=0``: one primitive for each call."""

    def __init__(self, fuse_opt_level: int = -1) -> None:
        enabled = a_count(fuse_opt_level, "FuseOps: the fuse_opt_level", least=-1) != 0
        super().__init__("FuseOps", "fuse_ops", enabled=enabled)


class FoldConstant(DeclaredPass):
    """``fold_qnn`` has no effect."""

    def __init__(self, fold_qnn: bool = False) -> None:
        super().__init__("FoldConstant", "fold_constant")


class DeadCodeElimination(DeclaredPass):
    """Global functions are kept; ``RemoveUnusedFunctions`` removes them.

    ``inline_once``: a value that is used once takes the place of its variable.  ``ignore_impurity``: an unused binding is removed
    even if it has an effect.
    """

    def __init__(self, inline_once: bool = False, ignore_impurity: bool = False) -> None:
        self._inlines = bool(inline_once)
        super().__init__("DeadCodeElimination", "eliminate_dead_code", ignore_effects=bool(ignore_impurity))

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        out = super().transform(mod, context)
        return inline_values_used_once(out) if self._inlines else out


class SimplifyExpr(DeclaredPass):
    """The rules of the pipeline, and those of ``requested_rules``, of which four change floats, and ``requested_bounds``."""

    def __init__(self) -> None:
        super().__init__("SimplifyExpr", "simplify", more=(REQUESTED, BOUNDS))


class EliminateCommonSubexpr(DeclaredPass):
    """``fskip``: a function of an expression; those for which it is true are evaluated as often as they occur."""

    def __init__(self, fskip: Callable[[Expr], Any] | None = None) -> None:
        if fskip is not None and not callable(fskip):
            raise wrong("EliminateCommonSubexpr: fskip", "a function of an expression", fskip)
        options = {} if fskip is None else {"skips": fskip}
        super().__init__("EliminateCommonSubexpr", "eliminate_common_subexpr", **options)


class RemoveUnusedFunctions(DeclaredPass):
    """Eliminate dead code and every function that no entry reaches."""

    def __init__(self, entry_functions: Sequence[str] | None = None) -> None:
        entries = ["main"] if entry_functions is None else entry_functions
        if isinstance(entries, str) or not all(isinstance(name, str) for name in entries):
            raise wrong("RemoveUnusedFunctions: entry_functions", "a list of names", entry_functions)
        super().__init__("RemoveUnusedFunctions", "eliminate_dead_code", entries=tuple(entries))


class ManifestLifetimes(Pass):
    """The module as the machine for the CPU runs it, after all passes: with allocations, and the end of each live range.

    Such a module is for reading, ``memory.kill`` is an instruction of the machine; one that has allocations stays as it is.
    """

    def __init__(self) -> None:
        super().__init__(PassInfo(0, "ManifestLifetimes", ()))

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        chains = [f.body for f in mod.functions.values() if not f.is_primitive]
        done = any(_is_of_memory(value) for chain in chains for value in values(chain))
        return mod if done else pipeline.lower(mod, Config(opt_level=min(context.opt_level, 3)), HOST)


def _is_of_memory(value: Expr) -> bool:
    """Whether the value is an allocation or the end of a live range."""
    return isinstance(value, Call) and isinstance(value.op, Op) and value.op.name.startswith("memory.")


class FlexibleShapeDispatch(DeclaredPass):
    """``main`` as a choice among versions of itself with static sizes.

    ``buckets``: the sizes of ``axis`` with a version of their own; with a list of axes, a tuple of sizes for each bucket.
    ``input_indices``: the parameters that have the axis, or a list of them for each axis; the first decides, and every axis of
    the same named size follows.  ``auto_pad``: smaller sizes are padded with ``pad_value`` to the smallest bucket that holds
    them, and the results lose the added part: those of ``output_indices`` on ``axis``, or all on each axis that has the flexible
    size by its type; none with ``affects_output=False``.  Sizes without a version run the function ``main_any``, the program for
    every size.  Raises ArgumentError.
    """

    def __init__(
        self, buckets: Sequence[Any], axis: int | Sequence[int] = 0, auto_pad: bool = False, pad_value: float | None = 0,
        input_indices: Sequence[Any] | None = None, output_indices: Sequence[Any] | None = None, affects_output: bool = True,
    ) -> None:  # fmt: skip
        found = shape_buckets(buckets, axis, auto_pad, pad_value, input_indices, output_indices, affects_output)
        super().__init__("FlexibleShapeDispatch", flexible_shape_dispatch.__name__, buckets=found)


class QuantizeWeights(DeclaredPass):
    """Constant weights of products of float32 in ``bits`` bits, 2, 4 or 8.

    ``block``: the numbers of a block, a power of 2 from 16 on.  A weight changes by up to ``1 / (2 ** (bits + 1) - 2)`` of the
    range of its block.  Raises ArgumentError.
    """

    def __init__(self, bits: int = 4, block: int = 32) -> None:
        if bits not in BITS:
            raise wrong("QuantizeWeights: bits", f"one of {', '.join(map(str, BITS))}", bits)
        if not isinstance(block, int) or block < LEAST_BLOCK or block & (block - 1):
            raise wrong("QuantizeWeights: block", f"a power of 2 from {LEAST_BLOCK} on", block)
        super().__init__("QuantizeWeights", quantize_weights.__name__, bits=bits, block=block)


class FoldScaleAxis(Pass):
    """``BackwardFoldScaleAxis``, then ``ForwardFoldScaleAxis``."""

    def __init__(self) -> None:
        backward, self._forward = DECLARED[fold_scale_axis.__name__], DECLARED[forward_fold_scale_axis.__name__]
        super().__init__(PassInfo(_level(fold_scale_axis.__name__), "FoldScaleAxis", (backward.name,)))

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        return apply(self._forward, mod)


#: Passes with options, and passes that share the function of another.
_OPTIONED: dict[str, Callable[..., Pass]] = {
    each.__name__: each
    for each in (
        FoldScaleAxis,
        FuseOps,
        FoldConstant,
        DeadCodeElimination,
        EliminateCommonSubexpr,
        SimplifyExpr,
        ManifestLifetimes,
        RemoveUnusedFunctions,
        FlexibleShapeDispatch,
        QuantizeWeights,
    )
}


def declared_passes() -> dict[str, Callable[..., Pass]]:
    """The classes by Relay's names."""
    derived = {d.name: functools.partial(_without_options, d, function) for function, d in DECLARED.items()}
    return {**derived, **_OPTIONED, **REWRITING}


def _without_options(declaration: PassDeclaration, function: str, /, *args: Any, **named: Any) -> Pass:
    if args or named:
        raise ArgumentError(f"relay.transform.{declaration.name} takes no arguments", here())
    return DeclaredPass(declaration.name, function)


@functools.cache
def _level(function: str) -> int:
    """The least optimisation level at which the pipeline runs the pass; Relay's, or 0, if only users apply it."""
    if function == forward_fold_scale_axis.__name__:
        function = fold_scale_axis.__name__
    for level in range(4):
        if function in dict(pipeline.passes(Config(opt_level=level), LoweringContext())):
            return level
    return 0


#: Passes of Relay without a counterpart, each with the reason and the alternative.
ABSENT = {
    **dict.fromkeys(
        (
            *("AnnotateTarget", "CollagePartition", "InlineCompilerFunctionsBoundTo", "MarkCompilerFunctionsAsExtern"),
            *("MergeCompilerRegions", "OutlineCompilerFunctionsWithExistingGlobalSymbols", "PartitionGraph"),
        ),
        "there are no external code generators; relay.transform.MergeComposite makes functions of calls",
    ),
    "CapturePostDfsIndexInSpans": "relay.analysis.post_order_visit lists expressions by number",
    "Defunctionalization": "the machine has functions as values",
    "SplitArgs": "kernels take any number of tensors",
    **dict.fromkeys(("ToCPS", "to_cps", "un_cps"), "the machine has calls and tail calls"),
    "FirstOrderGradient": "there are no gradients",
    "gradient": "there are no gradients",
    "PartialEvaluate": "use FoldConstant",
    "ManifestAlloc": "allocations need chosen implementations; relay.compile inserts them",
    "MemoryPlan": "the memory plan needs allocations; relay.compile makes it",
    "LazyGradientInit": "there are no gradients",
}


def absence(name: str) -> str:
    """The message for a name of ``relay.transform`` that does not exist."""
    if name in ABSENT:
        return f"there is no relay.transform.{name}: {ABSENT[name]}"
    return f"there is no relay.transform.{name}{did_you_mean(name, [*declared_passes(), 'Sequential', 'PassContext'])}"
