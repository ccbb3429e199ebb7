"""manifest_alloc: the allocations, shape functions and copies of a program, as text.

Each file of ``manifest_alloc/`` is a program, ``// -----``, and the output of the pass.  The first line gives the options.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.expr import IRModule
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.ir.structural_equal import structural_equal
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.lowering.manifest_alloc import manifest_alloc
from relayvm.compiler.lowering.manifest_lifetimes import manifest_lifetimes
from relayvm.compiler.lowering.start_copies import start_copies
from relayvm.compiler.passes.fuse_ops import fuse_ops
from relayvm.compiler.passes.infer_type import infer_type
from relayvm.compiler.passes.to_a_normal_form import to_a_normal_form
from relayvm.compiler.text.parser import parse
from relayvm.compiler.text.printer import astext
from relayvm.ops.core.op import REGISTRY, Op, OpPattern
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, register_shape_func

from ...golden_texts import Golden, read_case
from ...programs import HEADER

CASES = sorted(Path(__file__).with_name("manifest_alloc").glob("*.relay"))


@pytest.fixture(autouse=True)
def full_of():
    """An operator with a tuple input whose data its shape function reads; no real one has that."""

    @dataclasses.dataclass(frozen=True)
    class NoAttrs:
        pass

    @register_shape_func("full_of", data_dependent=[False, True])
    def full_of_shape(inputs, attrs):
        _, sizes = inputs
        return tuple(s.values[0] for s in sizes)

    Op(
        name="full_of",
        doc="An array of the sizes in a tuple, filled with the first element.",
        inputs=("data", "sizes*"),
        pattern=OpPattern.INJECTIVE,
        dtype=lambda dtypes, attrs: dtypes[0],
        attrs=NoAttrs,
        compute=lambda inputs, axes, attrs, out: inputs[0](0),
    )
    yield
    del REGISTRY["full_of"], SHAPE_FUNCS["full_of"]


def allocated(path: Path) -> IRModule:
    """The program of a case with explicit allocation."""
    case = read_case(path)
    options, mod = case.options, infer_type(to_a_normal_form(parse(HEADER + case.program)))
    mod = fuse_ops(mod, LoweringContext(), enabled=options.get("fuse", "on") == "on")
    return manifest_alloc(mod, LoweringContext(options["target"], options.get("data_dependence", "input")))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_before_and_after(path: Path, golden: Golden) -> None:
    mod = allocated(path)
    check(mod, "manifest_alloc", typed=True)
    golden.check_case(path, astext(mod).removeprefix(HEADER))
    assert structural_equal(parse(astext(mod)), mod)


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_lifetimes_are_well_formed_and_print(path: Path) -> None:
    mod = manifest_lifetimes(start_copies(allocated(path)))
    check(mod, "manifest_lifetimes", typed=True)
    assert structural_equal(parse(astext(mod)), mod)


def test_a_checked_shape_is_cast_to_its_narrow_dtype() -> None:
    text = """def @main(%x: Tensor[(?, ?), float32], %s: Tensor[(?), float32]) {
        qnn.simulated_quantize(%x, %s, shape_of(%x), out_dtype="int32") }"""
    vm = relay.VirtualMachine(relay.compile(HEADER + text))
    x, scales = np.array([[1.0, 4.0], [-8.0, 2.0], [0.0, 6.0]], "float32"), np.array([0.5, 2.0], "float32")
    np.testing.assert_array_equal(vm.run(x, scales).numpy(), np.rint(x / scales) + np.array([3.0, 2.0], "float32"))
