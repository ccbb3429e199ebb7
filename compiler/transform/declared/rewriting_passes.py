"""Relay's passes that the compiler does not run by itself, as classes: ``relay.transform.FastMath()(mod)``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....ops.core.tensor_types import HALVES, FuncType, TensorType, Type
from ....shape_funcs.symbolic.dim import dim
from ....vm.diagnostics.argument_errors import a_count, a_text, wrong
from ....vm.diagnostics.python_source import here
from ....vm.diagnostics.source import ArgumentError
from ...builder.build import a_dtype
from ...ir.expr import Expr, Function, IRModule, Var, replace
from ...ir.op_attributes import LEGALIZE
from ...ir.visitor import free_vars, post_order
from ...passes.beta_reduction import rewritten_function
from ...text.parser import parse
from ...text.printer import astext
from .. import inlining, operator_rewrites, parallel_calls
from ..convert_layout import checked_layouts, convert_layout
from ..eta_expansion import eta_expand
from ..fake_quantization_to_integer import fake_quantization_to_integer
from ..fc_transpose import checked_weights, simplify_fc_transpose
from ..layout_config import LayoutConfig
from ..mixed_precision import recast, to_mixed_precision
from ..module_pass import ModulePass, Pass, Sequential, plain_pass
from ..pass_context import PassContext, PassInfo
from ..patterns.merge_composite import merge_composite
from ..patterns.merge_composite import pattern_table as checked_pattern_table
from ..registered.alter_op_layout import alter_op_layout
from ..registered.legalize import legalize
from ..requirements import with_requirements
from ..sparse.passes import SPARSE_PASSES


def _combining(name: str, run: Callable[[IRModule, int], IRModule]) -> Callable[..., Pass]:
    def make(min_num_branches: int = 3) -> Pass:
        least = a_count(min_num_branches, f"{name}: min_num_branches", least=2)
        return ModulePass(lambda mod, context: run(mod, least), PassInfo(4, name, ("InferType",)))

    make.__name__ = name
    make.__doc__ = run.__doc__
    return make


def _batching_ops() -> Pass:
    """``CombineParallelConv2D``, ``CombineParallelDense`` and ``CombineParallelBatchMatmul``."""
    return Sequential([make() for make in _COMBINING.values()], 4, "BatchingOps")


def _annotate_spans(mod: IRModule) -> IRModule:
    """The module read from its own text: each node has its place in the text."""
    return parse(astext(mod), "GeneratedSource")


def span_check() -> Pass:
    """``SpanCheck``: the module itself, if each of its expressions has a place.  Raises ArgumentError."""

    def run(mod: IRModule, context: PassContext) -> IRModule:
        for name, function in mod.functions.items():
            missing = [type(node).__name__ for node in post_order(function) if node.span is None]
            if missing:
                message = f"SpanCheck: @{name} has expressions without a place: {', '.join(dict.fromkeys(missing))}"
                raise ArgumentError(message, here(), help="relay.transform.AnnotateSpans()(mod) gives each its place in the text")
        return mod

    return ModulePass(run, PassInfo(0, "SpanCheck", ()))


def _change_batch(data: Mapping[Var, int], batch_size: int = 16) -> Pass:
    """Parameters with another size of the batch; ``data``: the axis of the batch by parameter.  Types are inferred again."""
    size = a_count(batch_size, "ChangeBatch: the batch_size")
    wanted = "a dict from parameters with shapes to their axes"
    if not isinstance(data, Mapping):
        raise wrong("ChangeBatch: the data", wanted, data)
    for var, axis in data.items():
        ty = var.annotation if isinstance(var, Var) else None
        if not isinstance(ty, TensorType) or not isinstance(axis, int) or not 0 <= axis < ty.rank:
            raise wrong("ChangeBatch: the data", wanted, {str(var): axis})

    def run(mod: IRModule, context: PassContext) -> IRModule:
        new = {id(var): Var(var.name, _resized(var, axis, size), span=var.span) for var, axis in data.items()}

        def visit(node: Expr) -> Expr:
            if isinstance(node, Function):
                node = replace(node, params=tuple(new.get(id(p), p) for p in node.params), ret_type=None)
            return replace(new.get(id(node), node), ty=None) if not isinstance(node, Var) else new.get(id(node), node)

        return replace(mod, functions={name: rewritten_function(f, visit) for name, f in mod.functions.items()})

    return ModulePass(run, PassInfo(0, "ChangeBatch", ()))


def _convert_layout(desired_layouts: Mapping[str, Sequence[str]]) -> Pass:
    """Convolutions and pools in other layouts: ``{"nn.conv2d": ["NHWC", "default"]}``, of the data and of the kernel."""
    desired = checked_layouts(desired_layouts)
    return ModulePass(lambda mod, context: convert_layout(mod, desired), PassInfo(3, "ConvertLayout", ("InferType",)))


def _eta_expand(expand_constructor: bool = False, expand_global_var: bool = False) -> Pass:
    """Functions that are values as functions that call them."""
    run = functools.partial(eta_expand, constructors=expand_constructor, global_vars=expand_global_var)
    return ModulePass(lambda mod, context: run(mod), PassInfo(1, "EtaExpand", ()))


def _to_mixed_precision(mixed_precision_type: str = "float16", missing_op_mode: int = 1) -> Pass:
    """Products and convolutions of float32 in a narrower dtype; ``missing_op_mode`` has no effect: every operator has its rule.

    The config ``relay.ToMixedPrecision.keep_orig_output_dtype`` of the context keeps the result type of ``main``.
    """
    dtype = a_dtype(mixed_precision_type)
    if dtype not in HALVES:
        raise wrong("ToMixedPrecision: mixed_precision_type", f"{' or '.join(HALVES)}", dtype)

    def run(mod: IRModule, context: PassContext) -> IRModule:
        keep = bool(context.config.get("relay.ToMixedPrecision.keep_orig_output_dtype", False))
        return to_mixed_precision(mod, dtype, keep)

    return ModulePass(run, PassInfo(0, "ToMixedPrecision", ("InferType",)))


def _simplify_fc_transpose(target_weights: Sequence[str]) -> Pass:
    """Products with weights of these names, used only transposed, as products with parameters that are the transposed weights."""
    names = checked_weights(target_weights)
    return ModulePass(lambda mod, context: simplify_fc_transpose(mod, names), PassInfo(0, "SimplifyFCTranspose", ()))


def _legalize(legalize_map_attr_name: str = LEGALIZE) -> Pass:
    """Calls as the expressions that functions give which are registered for operators (``relay.op.register_legalize``)."""
    key = a_text(legalize_map_attr_name, "Legalize: legalize_map_attr_name")
    return ModulePass(lambda mod, context: legalize(mod, key), PassInfo(1, "Legalize", ("InferType",)))


def _merge_composite(pattern_table: Sequence[Any]) -> Pass:
    """The calls that a pattern matches as one call of a function with the attribute ``Composite``.

    ``pattern_table``: rows of a name, a pattern of ``relay.dataflow_pattern``, and perhaps a function that decides on a match.
    """
    table = checked_pattern_table(pattern_table)
    return ModulePass(lambda mod, context: merge_composite(mod, table), PassInfo(0, "MergeComposite", ("InferType",)))


def _fake_quantization_to_integer(
    hard_fail: bool = False, use_qat: bool = False, optional_qnn_ops: Sequence[str] | None = None
) -> Pass:
    """Operators of floats between ``qnn.dequantize`` and ``qnn.quantize`` as operators of integers.

    ``hard_fail``: a region that stays is an error.  ``use_qat``: operators with dequantized arguments in a region that stays
    become operators of integers, too.  ``optional_qnn_ops`` is not supported.
    """
    if optional_qnn_ops:
        help = "an operator that has a rule needs no mention"
        raise ArgumentError("FakeQuantizationToInteger: optional_qnn_ops is not supported", here(), help=help)

    def run(mod: IRModule, context: PassContext) -> IRModule:
        return fake_quantization_to_integer(mod, bool(hard_fail), bool(use_qat))

    return ModulePass(run, PassInfo(0, "FakeQuantizationToInteger", ("InferType",)))


def _resized(var: Var, axis: int, size: int) -> Type:
    assert isinstance(var.annotation, TensorType)
    shape = var.annotation.shape
    return replace(var.annotation, shape=(*shape[:axis], dim(size), *shape[axis + 1 :]))


_COMBINING = {
    name: _combining(name, run)
    for name, run in {
        "CombineParallelConv2D": parallel_calls.combine_parallel_conv2d,
        "CombineParallelDense": parallel_calls.combine_parallel_dense,
        "CombineParallelBatchMatmul": parallel_calls.combine_parallel_batch_matmul,
    }.items()
}
#: The classes by Relay's names.
REWRITING: dict[str, Callable[..., Pass]] = {
    **_COMBINING,
    "AlterOpLayout": plain_pass("AlterOpLayout", alter_op_layout, 3, "InferType"),
    "AnnotateSpans": plain_pass("AnnotateSpans", _annotate_spans, 0),
    "BatchingOps": _batching_ops,
    "CanonicalizeCast": plain_pass("CanonicalizeCast", operator_rewrites.canonicalize_cast, 3),
    "CanonicalizeOps": plain_pass("CanonicalizeOps", operator_rewrites.canonicalize_ops, 3, "InferType"),
    "ChangeBatch": _change_batch,
    "ConvertLayout": _convert_layout,
    "DefuseOps": plain_pass("DefuseOps", inlining.defuse_ops, 3),
    "DivToMul": plain_pass("DivToMul", operator_rewrites.div_to_mul, 0),
    "EtaExpand": _eta_expand,
    "FakeQuantizationToInteger": _fake_quantization_to_integer,
    "FastMath": plain_pass("FastMath", operator_rewrites.fast_math, 4),
    "FlattenAtrousConv": plain_pass("FlattenAtrousConv", operator_rewrites.flatten_atrous_conv, 0),
    "FoldExplicitPadding": plain_pass("FoldExplicitPadding", operator_rewrites.fold_explicit_padding, 0),
    "Inline": plain_pass("Inline", inlining.inline, 1),
    "Legalize": _legalize,
    "MergeComposite": _merge_composite,
    "SimplifyFCTranspose": _simplify_fc_transpose,
    "ToMixedPrecision": _to_mixed_precision,
    "ToGraphNormalForm": plain_pass("ToGraphNormalForm", inlining.to_graph_normal_form, 1),
    **SPARSE_PASSES,
}


# ---- on expressions ------------------------------------------------------------------------------------------------------


def _function_after(expr: Expr, required: str) -> Function:
    """The function whose body is the expression, after a pass."""
    if not isinstance(expr, Expr):
        raise wrong(f"{required}: the argument", "an expression", expr)
    function = expr if isinstance(expr, Function) else Function(tuple(free_vars(expr)), expr)
    return with_requirements(IRModule({"main": function}), (required,))["main"]


def infer_type_local(expr: Expr) -> Type:
    """The type of an expression whose variables are annotated.  Raises ArgumentError, TypeCheckError."""
    found = _function_after(expr, "InferType").checked_type
    return found.result if isinstance(found, FuncType) and not isinstance(expr, Function) else found


def to_a_normal_form_expr(expr: Expr) -> Expr:
    """The expression in A-normal form.  Raises ArgumentError, TypeCheckError."""
    function = _function_after(expr, "ToANormalForm")
    return function if isinstance(expr, Function) else function.body


#: Names of Relay's beside the passes.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "LayoutConfig": LayoutConfig,
    "InferTypeLocal": infer_type_local,
    "ToANormalFormExpr": to_a_normal_form_expr,
    "build_config": PassContext,
    "recast": recast,
}
