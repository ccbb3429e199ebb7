"""place: what is put on the host, as text.

Each file of ``place/`` is a program, ``// -----``, and what the pass makes of it.  The first line gives the options.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import relayvm.ops  # noqa: F401  declares the operators
from relayvm.compiler.ir.expr import IRModule
from relayvm.compiler.ir.structural_equal import structural_equal
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.passes.fuse_ops import fuse_ops
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.lambda_lift import lambda_lift
from relayvm.compiler.passes.place import place
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.text.parser import parse
from relayvm.compiler.text.printer import astext

VERSION = '#[version = "0.0.5"]\n'
CASES = sorted(Path(__file__).with_name("place").glob("*.relay"))


def placed(path: Path) -> tuple[IRModule, str, dict[str, str]]:
    """The case's program after the pass, the text that is expected, and the options."""
    before, _, after = path.read_text().partition("// -----\n")
    first, _, program = before.partition("\n")
    options = dict(item.strip().split(": ") for item in first.removeprefix("//").split(","))
    mod = lambda_lift(infer_type(to_a_normal_form(parse(VERSION + program))))
    entries = tuple(parse(VERSION + program).functions)
    return run(mod, options, entries), after, options


def run(mod: IRModule, options: dict[str, str], entries: tuple[str, ...]) -> IRModule:
    return place(mod, options["target"], entries, enabled=options.get("place", "on") == "on")


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_before_and_after(path: Path) -> None:
    mod, expected, options = placed(path)
    check(mod, "place", typed=True)
    assert astext(mod).removeprefix(VERSION) == expected
    assert structural_equal(parse(VERSION + expected), mod)
    entries = tuple(parse(VERSION + path.read_text().partition("// -----\n")[0].partition("\n")[2]).functions)
    assert structural_equal(run(mod, options, entries), mod), "a second run changes it again"


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_fusion_keeps_host_and_target_apart(path: Path) -> None:
    mod, _, options = placed(path)
    fused = fuse_ops(mod)
    check(fused, "fuse_ops", typed=True)
    assert structural_equal(parse(astext(fused)), fused)
    devices = {f.attrs.get("device", options["target"]) for f in fused.functions.values() if f.is_primitive}
    assert devices <= {"cpu", options["target"]}
