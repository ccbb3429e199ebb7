"""Every pass keeps the semantics of a program: random programs before and after it, run with numpy."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call, IRModule
from relayvm.compiler.ir.well_formed import check
from relayvm.compiler.passes.eliminate_common_subexpr import eliminate_common_subexpr
from relayvm.compiler.passes.eliminate_dead_code import eliminate_dead_code
from relayvm.compiler.passes.fold_constant import fold_constant
from relayvm.compiler.passes.infer_type import infer_sizes
from relayvm.compiler.passes.narrow_tuples import narrow_tuples
from relayvm.compiler.passes.reordering.gather_before_reduce import gather_before_reduce
from relayvm.compiler.passes.reordering.reduce_before_monotonic import reduce_before_monotonic
from relayvm.compiler.passes.simplify import simplify
from relayvm.compiler.passes.sizes.dynamic_to_static import dynamic_to_static
from relayvm.compiler.passes.sizes.early_sizes import early_sizes

from .generated_programs import arguments, programs, run, same, typed

PASSES = (
    dynamic_to_static, early_sizes, eliminate_common_subexpr, eliminate_dead_code, fold_constant, gather_before_reduce,
    narrow_tuples, reduce_before_monotonic, simplify,
)  # fmt: skip


def _checked(run_pass: Callable[[IRModule], IRModule], mod: IRModule) -> IRModule:
    out = run_pass(mod)
    check(out, run_pass.__name__, typed=True)
    return out


@pytest.mark.parametrize("run_pass", PASSES, ids=lambda p: p.__name__)
@settings(max_examples=25)
@given(programs(), st.integers(0, 3), st.integers(0, 9))
def test_one_pass(run_pass: Callable[[IRModule], IRModule], text: str, rows: int, seed: int) -> None:
    # as in the pipeline: passes know the sizes that a program takes from shapes
    mod, given_ = infer_sizes(typed(text)), arguments(rows, seed)
    out = _checked(run_pass, mod)
    assert same(run(out, *given_), run(mod, *given_))
    # types are still those that inference gives
    again = infer_sizes(out)
    assert str(again["main"].body.ty) == str(out["main"].body.ty)


@settings(max_examples=40)
@given(programs(20), st.integers(0, 3), st.integers(0, 9))
def test_all_of_them(text: str, rows: int, seed: int) -> None:
    mod, given_ = typed(text), arguments(rows, seed)
    out = mod
    for run_pass in (
        fold_constant, dynamic_to_static, fold_constant, simplify, early_sizes, eliminate_common_subexpr, eliminate_dead_code,
        gather_before_reduce, eliminate_dead_code, reduce_before_monotonic, eliminate_dead_code, narrow_tuples,
        eliminate_dead_code,
    ):  # fmt: skip
        out = _checked(run_pass, out)
    assert same(run(out, *given_), run(mod, *given_))
    assert _calls(out) <= _calls(mod)


# the same programs each time: their kernels are compiled once
@settings(max_examples=8, derandomize=True, database=None)
@given(programs(8), st.integers(0, 3))
@pytest.mark.extensive
def test_kernels_give_the_same_with_and_without_passes(text: str, rows: int) -> None:
    given_, results = arguments(rows, 1), []
    for level in (0, 2, 3):
        vm = relay.VirtualMachine(relay.compile('#[version = "0.0.5"]\n' + text, opt_level=level, fuse=level > 0))
        results.append(tuple(r.numpy() for r in vm.run(*given_)))
    assert same(results[1], results[0]) and same(results[2], results[0])
    assert same(results[0], run(typed(text), *given_))


def _calls(mod: IRModule) -> int:
    return sum(isinstance(v, Call) for v in values(mod["main"].body))
