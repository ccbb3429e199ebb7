"""The compiler's pipeline: the list of passes, and their configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace

from ...declarations.frozen_dataclass import frozen
from ...ops.core.implementation import GPU, HOST
from ...ops.core.similar_names import alternatives
from ...ops.core.tensor_types import HALVES
from ...ops.kernels.attention import cuda as attention_cuda
from ...ops.strategy.choice import Preferred
from ...vm.device_table import machine_of
from ...vm.diagnostics.source import ConfigError
from ...vm.options import Environment
from ..device_placement.place import place
from ..ir.expr import IRModule
from ..ir.lowering_context import LoweringContext
from ..ir.well_formed import check, check_bindings
from ..passes.caches.attend_in_place import attend_in_place
from ..passes.caches.grow_caches import grow_caches
from ..passes.constant_weights.byte_convolutions import byte_convolutions
from ..passes.constant_weights.fold_scale_axis import fold_scale_axis
from ..passes.constant_weights.keep_weight_bits import keep_weight_bits
from ..passes.constant_weights.pack_weight_bits import pack_weight_bits
from ..passes.constant_weights.pack_weights import pack_weights
from ..passes.constant_weights.quantize_weights import quantize_weights
from ..passes.eliminate_common_subexpr import eliminate_common_subexpr
from ..passes.eliminate_dead_code import eliminate_dead_code
from ..passes.expand_composites import expand_composites
from ..passes.fold_constant import fold_constant
from ..passes.fuse_attention import fuse_attention
from ..passes.fuse_expansions import fuse_expansions
from ..passes.fuse_ops import fuse_ops
from ..passes.infer_type import infer_sizes, infer_type
from ..passes.inline_functions import inline_functions
from ..passes.lambda_lift import lambda_lift
from ..passes.narrow_tuples import narrow_tuples
from ..passes.precision.byte_tables import byte_tables
from ..passes.precision.channels_last import channels_last
from ..passes.precision.early_quantisation import early_quantisation
from ..passes.precision.integer_products import integer_products
from ..passes.precision.operator_precision import WIDE_ON_CPUS
from ..passes.precision.store_halves import store_halves
from ..passes.precision.unsigned_bytes import unsigned_bytes
from ..passes.precision.widen_halves import widen_halves
from ..passes.reordering.fold_tiles import fold_tiles
from ..passes.reordering.fold_transposes import fold_transposes
from ..passes.reordering.gather_before_product import gather_before_product
from ..passes.reordering.gather_before_reduce import gather_before_reduce
from ..passes.reordering.reduce_before_monotonic import reduce_before_monotonic
from ..passes.simplify import simplify
from ..passes.sizes.dynamic_to_static import dynamic_to_static
from ..passes.sizes.early_sizes import early_sizes
from ..passes.to_a_normal_form import to_a_normal_form
from ..polymorphism.monomorphize import monomorphize
from ..settings.config import LEAVE_OUT, Config
from ..settings.targets import check_weights
from .check_kernels import check_kernels
from .manifest_alloc import manifest_alloc
from .manifest_lifetimes import manifest_lifetimes
from .plan_memory import plan_memory
from .select_implementations import select_implementations
from .start_copies import start_copies
from .strict_copies import strict_copies

Pass = Callable[[IRModule], IRModule]

#: The condition of passes that run under every configuration.
ALWAYS = "always"

#: The stages of ``relayvm dump --stage``, each with the last pass before it.
STAGES = {
    "typed": "infer_type",
    "fused": "select_implementations",
    "planned": "plan_memory",
    "alloc": "manifest_lifetimes",
}


def context_of(mod: IRModule, config: Config, target: str) -> LoweringContext:
    """The context in which ``mod``, a whole program, is lowered for ``target``."""
    return LoweringContext(target, config.data_dependence, tuple(mod.functions))


@frozen
class Step:
    """A pass of the pipeline.

    ``optional``: whether programs can be compiled without it; ``instead``: the function that then runs.
    """

    name: str
    run: Pass
    optional: bool
    instead: Pass


def steps(config: Config, context: LoweringContext, preferred: Preferred | None = None) -> list[Step]:
    """The passes that run under ``config``, in order.  Raises ConfigError for a pass that cannot be left out.

    ``preferred``: the implementations preferred by measurements (see ``ops.strategy.choice``).
    """
    target = context.target
    machine = machine_of(target)
    basic = config.opt_level >= 1
    optimise = config.opt_level >= 2

    def fuse(mod: IRModule) -> IRModule:
        return fuse_ops(mod, context, enabled=config.fuse and optimise)

    def remove_dead(mod: IRModule) -> IRModule:
        return eliminate_dead_code(mod, entries=context.entries)

    def place_values(mod: IRModule) -> IRModule:
        return place(mod, context, config.place)

    def select(mod: IRModule) -> IRModule:
        return select_implementations(mod, target, dict(config.forced), preferred)

    def allocate(mod: IRModule) -> IRModule:
        return manifest_alloc(mod, context)

    def pack(mod: IRModule) -> IRModule:
        return pack_weights(mod, dict(config.forced))

    def store_words(mod: IRModule) -> IRModule:
        return byte_convolutions(mod, dict(config.forced))

    def narrow(mod: IRModule) -> IRModule:
        return store_halves(mod, config.precision, context.entries, () if machine == GPU else WIDE_ON_CPUS)

    def widen(mod: IRModule) -> IRModule:
        widened = widen_halves(mod, dict(config.forced), casts_store=config.precision in HALVES)
        # casts that nothing reads are other uses of a value
        return mod if widened is mod else remove_dead(widened)

    def move_bytes(mod: IRModule) -> IRModule:
        moved = unsigned_bytes(mod)
        # signed bytes that nothing reads are other uses of unsigned ones
        return mod if moved is mod else remove_dead(moved)

    def quantize(mod: IRModule) -> IRModule:
        return mod if config.weight_bits is None else quantize_weights(mod, config.weight_bits)

    limit = config.most_copied_bytes

    def refuse_copies(mod: IRModule) -> IRModule:
        return mod if limit is None else strict_copies(mod, limit)

    def reduce_monotonic(mod: IRModule) -> IRModule:
        return reduce_before_monotonic(mod, machine)

    def fuse_heads(mod: IRModule) -> IRModule:
        return fuse_attention(mod, dict(config.forced), attention_cuda.pays if machine == GPU else None)

    def attend(mod: IRModule) -> IRModule:
        attending = attend_in_place(mod, dict(config.forced))
        # the conditions of all layers are one
        return mod if attending is mod else eliminate_common_subexpr(attending)

    def fold_keys(mod: IRModule) -> IRModule:
        return fold_transposes(mod, dict(config.forced))

    def fold_repeated(mod: IRModule) -> IRModule:
        return fold_tiles(mod, dict(config.forced))

    def fuse_pairs(mod: IRModule) -> IRModule:
        return fuse_expansions(mod, dict(config.forced))

    def plan(mod: IRModule) -> IRModule:
        return plan_memory(mod, context, blind=config.plan == "blind")

    listed: list[tuple[bool | str, str, Pass]] = [
        (ALWAYS, "to_a_normal_form", to_a_normal_form),
        (ALWAYS, "monomorphize", monomorphize),
        # what a program computes of sizes is known to the passes that follow
        (ALWAYS, "infer_type", infer_sizes if optimise else infer_type),
        # after types are inferred: a mistake is reported once, at the call
        (optimise, "inline_functions", inline_functions),
        # before products are chosen by the dtypes of bytes
        (optimise and machine != GPU, "unsigned_bytes", move_bytes),
        # kernels of bytes for GPUs are plain ones
        (optimise and machine != GPU, "integer_products", integer_products),
        (optimise and machine != GPU, "early_quantisation", early_quantisation),
        # before the operators of a table are expanded; GPUs compute functions faster than they gather
        (optimise and machine != GPU, "byte_tables", byte_tables),
        # before convolutions of integers are expanded; on GPUs they are computed in float64
        (optimise and machine != GPU, "byte_convolutions", store_words),
        # after products of integers: the data of the others are floats
        (optimise and machine != GPU, "keep_weight_bits", keep_weight_bits),
        # before the operator is expanded; on GPUs weights are unpacked in each call
        (optimise and machine != GPU, "pack_weight_bits", pack_weight_bits),
        # weights that are integers now: their dequantised tensors would be computed as constants
        (optimise and machine != GPU, "eliminate_dead_code", remove_dead),
        (ALWAYS, "expand_composites", expand_composites),
        (basic, "fold_constant", fold_constant),
        (optimise, "dynamic_to_static", dynamic_to_static),
        # a static form may be a composite operator
        (optimise, "expand_composites", expand_composites),
        # a static call may be constant
        (optimise, "fold_constant", fold_constant),
        (optimise, "simplify", simplify),
        # before sizes are read from earlier values: the sizes of a cache become those of its rows in use
        (optimise, "grow_caches", grow_caches),
        (config.opt_level >= 3, "fold_scale_axis", fold_scale_axis),
        (optimise, "early_sizes", early_sizes),
        (optimise, "eliminate_common_subexpr", eliminate_common_subexpr),
        (optimise, "attend_in_place", attend),
        (basic, "eliminate_dead_code", remove_dead),
        (optimise, "gather_before_reduce", gather_before_reduce),
        (optimise, "gather_before_product", gather_before_product),
        # after a gather is in front of its reduction: a gather of a function's results is no other use
        (optimise, "eliminate_dead_code", remove_dead),
        (optimise, "reduce_before_monotonic", reduce_monotonic),
        (optimise, "eliminate_dead_code", remove_dead),
        (config.weight_bits is not None, "quantize_weights", quantize),
        (config.weight_bits is not None, "pack_weight_bits", pack_weight_bits),
        # before the passes that make one call of several: which they make depends on the dtypes
        (config.precision in HALVES, "store_halves", narrow),
        (optimise and config.precision in HALVES and machine == GPU, "channels_last", channels_last),
        # before the passes that make one call of several of float32, and pack its weights; GPUs compute with halves
        (optimise and machine != GPU, "widen_halves", widen),
        (optimise, "fuse_attention", fuse_heads),
        # after attention by heads has been one call
        (optimise, "fold_transposes", fold_keys),
        # after transposes between a tile and a product are folded; on GPUs libraries take a matrix for each product
        (optimise and machine != GPU, "fold_tiles", fold_repeated),
        # on GPUs libraries compute both convolutions
        (optimise and config.expansions and machine != GPU, "fuse_expansions", fuse_pairs),
        # on GPUs cuBLAS reads weights as they are
        (optimise and machine != GPU, "pack_weights", pack),
        # after dead code elimination: uses by dead code would keep fields alive
        (optimise, "narrow_tuples", narrow_tuples),
        (optimise, "eliminate_dead_code", remove_dead),
        (ALWAYS, "lambda_lift", lambda_lift),
        (ALWAYS, "place", place_values),
        (ALWAYS, "fuse_ops", fuse),
        # before plan_memory: in-place reuse depends on the implementations
        (ALWAYS, "select_implementations", select),
        (ALWAYS, "manifest_alloc", allocate),
        (machine == GPU, "check_kernels", lambda mod: check_kernels(mod, target)),
        (limit is not None, "strict_copies", refuse_copies),
        (config.bulk and target != HOST, "start_copies", start_copies),
        (basic and config.plan != "off", "plan_memory", plan),
        (ALWAYS, "manifest_lifetimes", manifest_lifetimes),
    ]
    instead: dict[str, Pass] = {
        "fuse_ops": lambda mod: fuse_ops(mod, context, enabled=False),
        "place": lambda mod: place(mod, context, False),
    }
    required = {name for wanted, name, _ in listed if wanted == ALWAYS} - set(instead)
    _check_left_out(config, [name for _, name, _ in listed], required)
    made = [Step(name, run, name not in required, instead.get(name, _nothing)) for wanted, name, run in listed if wanted]
    return [replace(step, run=step.instead) if step.name in config.left_out else step for step in made]


def _nothing(mod: IRModule) -> IRModule:
    return mod


def _check_left_out(config: Config, names: Sequence[str], required: Set[str]) -> None:
    """Raises ConfigError for a name of ``config.left_out`` that is no pass, or a pass that every program needs."""
    optional = list(dict.fromkeys(name for name in names if name not in required))
    for name in config.left_out:
        if name not in optional:
            fact = "no program can be compiled without it" if name in required else "there is no such pass"
            raise ConfigError(f"configuration key {LEAVE_OUT + name!r}: {fact}", help=alternatives(name, optional))


def passes(
    config: Config, context: LoweringContext, preferred: Preferred | None = None, most: int | None = None
) -> list[tuple[str, Pass]]:
    """The passes that run under ``config``, in order, by name; ``preferred`` as for ``steps``.

    ``most``: the number of optional passes, from the first on, that run; None: all.
    """
    listed, optional = [], 0
    for step in steps(config, context, preferred):
        is_off = step.optional and most is not None and optional >= most
        listed.append((step.name, step.instead if is_off else step.run))
        optional += step.optional
    return listed


def lowering(
    mod: IRModule, config: Config, target: str, preferred: Preferred | None = None, most: int | None = None
) -> Iterator[tuple[str, IRModule]]:
    """The module after each pass, with the pass's name; ``most`` as for ``passes``.

    Raises TypeCheckError, ConfigError for a key that the target lacks.
    """
    check_weights(config.weights, target)
    check_bindings(mod)
    checked, typed = Environment.read().checks, False
    for name, run in passes(config, context_of(mod, config, target), preferred, most):
        mod = run(mod)
        typed = typed or name == "infer_type"
        if checked:
            check(mod, name, typed=typed, named=typed)
        yield name, mod


def lower(mod: IRModule, config: Config, target: str, preferred: Preferred | None = None, most: int | None = None) -> IRModule:
    """``mod`` lowered for ``emit``; ``most`` as for ``passes``.  Raises TypeCheckError."""
    *_, (_, lowered) = lowering(mod, config, target, preferred, most)
    return lowered


def stages(mod: IRModule, config: Config, target: str, preferred: Preferred | None = None) -> dict[str, IRModule]:
    """The module as parsed and at each of ``STAGES``, by the stage's name.  Raises TypeCheckError."""
    out = {"parsed": mod}
    shown = {after: stage for stage, after in STAGES.items()}
    for name, step in lowering(mod, config, target, preferred):
        if name in shown:
            out[shown[name]] = step
    return out
