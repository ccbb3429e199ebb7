"""Each pass on pairs of programs: PASS/*.relay holds the input, a line ``// -----``, and the expected output."""

from __future__ import annotations

from pathlib import Path

import pytest

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.compiler.ir.expr import IRModule
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.ir.structural_equal import structural_equal
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.lowering.start_copies import start_copies
from relayvm.compiler.passes.constant_weights.fold_scale_axis import fold_scale_axis
from relayvm.compiler.passes.constant_weights.forward_fold_scale_axis import forward_fold_scale_axis
from relayvm.compiler.passes.eliminate_common_subexpr import eliminate_common_subexpr
from relayvm.compiler.passes.eliminate_dead_code import eliminate_dead_code
from relayvm.compiler.passes.expand_composites import expand_composites
from relayvm.compiler.passes.fold_constant import fold_constant
from relayvm.compiler.passes.fuse_ops import fuse_ops
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.inline_functions import inline_functions
from relayvm.compiler.passes.lambda_lift import lambda_lift
from relayvm.compiler.passes.narrow_tuples import narrow_tuples
from relayvm.compiler.passes.precision.store_halves import store_halves
from relayvm.compiler.passes.simplify import simplify, simplify_movement
from relayvm.compiler.passes.sizes.dynamic_to_static import dynamic_to_static
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.text.parser import parse
from relayvm.compiler.text.printer import astext
from relayvm.vm.diagnostics.source import ParseError

from ...golden_texts import Golden, read_case
from ...programs import HEADER

HERE = Path(__file__).parent
#: The passes before each pass.
PREPARE = {
    to_a_normal_form: (),
    infer_type: (to_a_normal_form,),
    inline_functions: (to_a_normal_form, infer_type),
    expand_composites: (to_a_normal_form, infer_type),
    fold_constant: (to_a_normal_form, infer_type, expand_composites),
    dynamic_to_static: (to_a_normal_form, infer_type),
    simplify: (to_a_normal_form, infer_type),
    simplify_movement: (to_a_normal_form, infer_type),
    fold_scale_axis: (to_a_normal_form, infer_type),
    forward_fold_scale_axis: (to_a_normal_form, infer_type, fold_constant),
    narrow_tuples: (to_a_normal_form, infer_type),
    store_halves: (to_a_normal_form, infer_type, expand_composites),
    eliminate_dead_code: (to_a_normal_form, infer_type),
    eliminate_common_subexpr: (to_a_normal_form,),
    fuse_ops: (to_a_normal_form, infer_type),
    lambda_lift: (to_a_normal_form, infer_type),
    start_copies: (),
}
CASES = [(p, f) for p in PREPARE for f in sorted((HERE / p.__name__).glob("*.relay"))]


@pytest.mark.parametrize(("run", "file"), CASES, ids=[f"{p.__name__}/{f.stem}" for p, f in CASES])
def test_before_after(run, file: Path, golden: Golden) -> None:
    mod: IRModule = parse(HEADER + read_case(file).program, str(file))
    for earlier in PREPARE[run]:
        mod = earlier(mod)
    context = (LoweringContext(),) if run is fuse_ops else ()
    found = run(mod, *context)
    check(found, run.__name__, typed=infer_type in (*PREPARE[run], run))
    text = astext(found).removeprefix(HEADER)
    golden.check_case(file, text, lambda expected: is_text_of(expected, found))
    assert infer_type is run or structural_equal(run(found, *context), found), "a second run changes it again"


def is_text_of(text: str, mod: IRModule) -> bool:
    """Whether the text is of this module, up to the names of its variables."""
    try:
        return structural_equal(mod, parse(HEADER + text))
    except ParseError:
        return False


def test_every_pass_has_cases() -> None:
    assert {p for p, _ in CASES} == set(PREPARE)
