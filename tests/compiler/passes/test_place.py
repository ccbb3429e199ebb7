"""place: the calls placed on the host, as text.

Each file of ``place/`` is a program, ``// -----``, and the output of the pass.  The first line gives the options.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.compiler.device_placement.place import place
from relayvm.compiler.ir.expr import IRModule
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.ir.structural_equal import structural_equal
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.passes.fuse_ops import fuse_ops
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.lambda_lift import lambda_lift
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.text.parser import parse
from relayvm.compiler.text.printer import astext

from ...golden_texts import Golden, read_case
from ...programs import HEADER

CASES = sorted(Path(__file__).with_name("place").glob("*.relay"))


def placed(path: Path) -> IRModule:
    """The program of a case after the pass."""
    mod = parse(HEADER + read_case(path).program)
    return run(path, lambda_lift(infer_type(to_a_normal_form(mod))))


def run(path: Path, mod: IRModule) -> IRModule:
    """The pass with the options of a case."""
    case = read_case(path)
    entries = tuple(parse(HEADER + case.program).functions)
    return place(mod, LoweringContext(case.options["target"], entries=entries), enabled=case.options.get("place", "on") == "on")


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_before_and_after(path: Path, golden: Golden) -> None:
    mod = placed(path)
    check(mod, "place", typed=True)
    golden.check_case(path, astext(mod).removeprefix(HEADER))
    assert structural_equal(parse(astext(mod)), mod)
    assert structural_equal(run(path, mod), mod), "a second run changes it again"


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_fusion_keeps_host_and_target_apart(path: Path) -> None:
    fused = fuse_ops(placed(path), LoweringContext())
    check(fused, "fuse_ops", typed=True)
    assert structural_equal(parse(astext(fused)), fused)
    target = read_case(path).options["target"]
    assert {f.attrs.get("device", target) for f in fused.functions.values() if f.is_primitive} <= {"cpu", target}
