"""The memory plan includes workspaces: they are stored in arenas, reuse storages, and are counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay
from relayvm.compiler.ir.expr import Call, If, IRModule, Let
from relayvm.compiler.ir.lowering_context import LoweringContext
from relayvm.compiler.ir.primitive_shape import SMALL_WORKSPACE, primitive
from relayvm.compiler.lowering.pipeline import stages
from relayvm.compiler.settings.config import Config
from relayvm.compiler.text.parser import parse
from relayvm.ops.core.conditions import condition
from relayvm.ops.core.dtype_rules import like_inputs
from relayvm.ops.core.implementation import Kernel, OpCall, Scratch
from relayvm.ops.core.op import REGISTRY, Op, OpPattern
from relayvm.ops.core.tensor_types import tensor_bytes
from relayvm.ops.defs.machine import machine_ops
from relayvm.ops.native.memory import generic
from relayvm.ops.native.threads import team as team
from relayvm.shape_funcs.symbolic.dim import Dim, const
from relayvm.shape_funcs.symbolic.dim_operations import evaluate
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, register_shape_func
from relayvm.vm.api.executable import from_bytes
from relayvm.vm.bytecode.executable_file import to_bytes
from relayvm.vm.options import POISON_VARIABLE
from relayvm.vm.runtime.kernels import fallback

from ...programs import HEADER
from .overlaps import dead_reads
from .planned import planned

SORTS = HEADER + "def @main(%x: Tensor[(?n), float32]) { sort(sort(%x), is_ascend=False) }"
CONVOLUTION = HEADER + (
    "def @main(%x: Tensor[(1, 8, 30, 30), float32], %k: Tensor[(8, 8, 3, 3), float32]) {"
    " let %y = reverse(exp(%x), axis=2); (sum(nn.conv2d(%y, %k)), sum(%x)) }"
)


def calls(mod: IRModule, *ops: Op) -> Iterator[tuple[Any, Call]]:
    """The calls of ``ops`` in ``main``, with their variables."""
    pending = [mod["main"].body]
    while pending:
        chain = pending.pop()
        while isinstance(chain, Let):
            if isinstance(chain.value, Call) and chain.value.op in ops:
                yield chain.var, chain.value
            if isinstance(chain.value, If):
                pending += [chain.value.false_branch, chain.value.true_branch]
            chain = chain.body


def workspaces(mod: IRModule) -> dict[Any, tuple[Any, int]]:
    """The storage of each workspace, and the offset in it."""
    found = {call.args[-1] for _, call in calls(mod, machine_ops.INVOKE_OP) if call.attrs.workspace}
    made = calls(mod, machine_ops.ALLOC_TENSOR, machine_ops.ALLOC_TENSOR_REG)
    return {var: (call.args[0], call.attrs.offset) for var, call in made if var in found}


# ---- storages ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_two_sorts_in_a_row_share_a_storage(target: str) -> None:
    positions = workspaces(planned(SORTS, target))
    assert len(positions) == 2 and len(set(positions.values())) == 1
    without = stages(parse(SORTS), Config.of(plan="off"), target)["alloc"]
    assert len(set(workspaces(without).values())) == 2


def test_the_workspace_of_a_convolution_lies_over_dead_values() -> None:
    mod = planned(CONVOLUTION, fuse="off", **{"impl.nn.conv2d": "im2col"})
    ((storage, offset),) = workspaces(mod).values()
    ((workspace_of, launch),) = [(c.args[-1], c) for _, c in calls(mod, machine_ops.INVOKE_OP) if c.attrs.workspace]
    tensors = {v.name: (c.args[0], c.attrs.offset, v) for v, c in calls(mod, machine_ops.ALLOC_TENSOR)}
    nbytes = {name: const(tensor_bytes(v.ty)) or 0 for name, (_, _, v) in tensors.items()}

    def overlaps(name: str) -> bool:
        its, at, _ = tensors[name]
        return its is storage and at < offset + nbytes[workspace_of.name] and offset < at + nbytes[name]

    dead, data, result = "exp", launch.args[1].name, launch.args[3].name
    assert overlaps(dead) and not overlaps(data) and not overlaps(result)
    assert dead_reads(mod) == []


def test_what_is_known_to_be_small_is_left_to_the_kernel() -> None:
    def has(n: int) -> bool:
        return bool(workspaces(planned(f"{HEADER}def @main(%x: Tensor[({n}), float32]) {{ sort(%x) }}")))

    # keys and positions, twice
    largest = SMALL_WORKSPACE // 24 - 16
    assert not has(largest) and has(largest + 40)


def test_no_workspace_on_a_gpu() -> None:
    mod = stages(parse(SORTS), Config.of(), "cuda")["planned"]
    assert workspaces(mod) == {}
    assert all(call.attrs.n_outputs == 1 for _, call in calls(mod, machine_ops.INVOKE_OP))


def test_a_size_that_is_known_is_not_worked_out_again() -> None:
    text = HEADER + "def @main(%x: Tensor[(3, ?n), float32]) { let %y = exp(%x); (dft(%x, %x), dft(%y, %y)) }"
    mod = planned(text)
    assert len(workspaces(mod)) == 2 and len(list(calls(mod, machine_ops.SHAPE_FUNC))) == 1


@pytest.mark.parametrize("n", [0, 1, 100, 191, 192, 5000])
def test_versions_get_what_the_one_that_runs_needs(n: int) -> None:
    mod = stages(parse(SORTS), Config.of(), "cpu")["alloc"]
    prim = primitive(mod["sort"], LoweringContext())
    assert prim.choice is not None and prim.choice.names == ("radix", "merge")
    needs = {name: evaluate(primitive(mod[f"sort_{name}"], LoweringContext()).workspace, {"d0": n}) for name in prim.choice.names}
    given_ = evaluate(prim.workspace, {"d0": n})
    assert given_ == max(needs["merge"], needs["radix"] if n >= 192 else 0)


# ---- effects -------------------------------------------------------------------------------------------------------------

STEPS = (
    "sort(%v, axis=1)",
    "sort(%v, axis=0)",
    "exp(negative(abs(%v)))",
    "nn.softmax(%v, axis=0)",
    'topk(%v, k=4, ret_type="values", axis=1)',
    'scatter_elements(%v, cast(argsort(%v, axis=1), dtype="int64"), multiply(%v, 2f), axis=1)',
    "dft(%v, %v).0",
    "reshape(nn.conv1d(reshape(%v, newshape=[1, -1, 4]), %k, padding=[1, 1]), newshape=[-1, 4])",
    "nn.dense(%v, %w)",
)


@settings(max_examples=25)
@given(
    st.lists(st.sampled_from(STEPS), min_size=1, max_size=5), st.integers(1, 40), st.sampled_from(["cpu", "sim"]), st.booleans()
)
def test_results_are_those_without_a_plan(steps: list[str], n: int, target: str, static: bool) -> None:
    lines = [f"let %v{i + 1} = {step.replace('%v', f'%v{i}')};" for i, step in enumerate(steps)]
    size = n if static else "?n"
    sizes = {"v0": f"{size}, 4", "k": f"{size}, {size}, 3", "w": "4, 4"}
    params = ", ".join(f"%{name}: Tensor[({shape}), float32]" for name, shape in sizes.items())
    last = f"%v{len(steps)}"
    # parts that are written where they are joined
    result = f"concatenate(({last}, sort({last}, axis=1), nn.softmax({last}, axis=0)), axis=0)"
    text = f"{HEADER}def @main({params}) {{ {' '.join(lines)} {result} }}"
    rng = np.random.default_rng(n)
    inputs = [rng.standard_normal(s).astype(np.float32) / 4 for s in ((n, 4), (n, n, 3), (4, 4))]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(POISON_VARIABLE, "1")
        found = []
        for plan in ("off", "blind", "on"):
            vm = relay.VirtualMachine(relay.compile(text, target=target, plan=plan))
            found.append([vm.run(*inputs).numpy().copy() for _ in range(2)])
            assert vm.memory["live_bytes"] == 0
    for results in found:
        for result in results:
            np.testing.assert_array_equal(result, found[0][0])


def test_it_is_counted() -> None:
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    vm = relay.VirtualMachine(relay.compile(SORTS))
    vm.run(x)
    # two results, and keys and positions twice
    assert vm.counters["peak_bytes"] > 2 * x.nbytes + 24 * len(x)
    least = vm.counters["peak_bytes"] + x.nbytes
    relay.VirtualMachine(relay.compile(SORTS), memory_limit_bytes=least).run(x)
    with pytest.raises(relay.VMError, match=r"out of memory: \d+ bytes are needed for uint8\[\d+\]"):
        relay.VirtualMachine(relay.compile(SORTS), memory_limit_bytes=16 * len(x)).run(x)


def test_a_profile_does_not_show_it() -> None:
    x = np.random.default_rng(0).standard_normal(1000).astype(np.float32)
    vm = relay.VirtualMachine(relay.compile(SORTS))
    found = vm.profile(x)
    rows = [r for r in found.activities if r.name == "sort"]
    assert rows and all(r.nbytes == 2 * x.nbytes * r.calls for r in rows)
    assert "uint8" not in str(found)


def test_a_failure_does_not_show_it() -> None:
    text = HEADER + (
        'def @main(%x: Tensor[(?n), float32], %i: Tensor[(?n), int64]) { scatter_elements(%x, %i, %x, reduction="add") }'
    )
    with pytest.raises(relay.VMError) as caught:
        relay.VirtualMachine(relay.compile(text)).run(np.zeros(9, np.float32), np.full(9, 9))
    shown = next(text for text, _ in caught.value.diagnostics[0].notes if text.startswith("operands"))
    assert "float32" in shown and "uint8" not in shown


def test_bytecode_says_so_and_is_kept() -> None:
    exe = relay.compile(SORTS)
    assert [(p.n_outputs, p.group.workspace) for p in exe.packed] == [(2, True)] * len(exe.packed)
    assert "1 in, 1 out, workspace" in exe.disassembly
    again = from_bytes(to_bytes(exe))
    assert again.packed == exe.packed
    text = planned(SORTS).astext()
    assert parse(text).astext() == text and "workspace=True" in text


@pytest.mark.parametrize("n_threads", [1, 3])
def test_parts_of_a_call_do_not_share_it(n_threads: int) -> None:
    text = (
        HEADER + "def @main(%x: Tensor[(?n, ?m), float32]) { (sort(%x), nn.softmax(%x, axis=1), sort(sort(%x, axis=0), axis=0)) }"
    )
    x = np.random.default_rng(0).standard_normal((40, 700)).astype(np.float32)
    vm = relay.VirtualMachine(relay.compile(text))
    try:
        relay.set_num_threads(n_threads)
        team.set_worth(10_000)
        for _ in range(3):
            rows, _, columns = vm.run(x)
            np.testing.assert_array_equal(rows.numpy(), np.sort(x))
            np.testing.assert_array_equal(columns.numpy(), np.sort(x, axis=0))
    finally:
        team.set_worth()
        relay.set_num_threads(None)


# ---- a stand-in that needs more ----------------------------------------------------------------------------------------

NAME = "test.halfway"


@generic
def through(x: Any, out: Any, workspace_of: Any) -> int:
    """The elements, by way of the buffer's end."""
    first = len(workspace_of) - len(x)
    for i in range(len(x)):
        workspace_of[first + i] = x[i]
    for i in range(len(x)):
        out[i] = workspace_of[first + i]
    return 0


def in_numpy(x: np.ndarray, out: np.ndarray) -> None:
    """The elements."""
    out[:] = x


def _length(call: OpCall) -> Dim:
    return call.inputs[0].shape[0]


LITTLE = Kernel("little", through, views=("flat",), scratch=(Scratch(length=_length),))
MUCH = Kernel("much", through, views=("flat",), scratch=(Scratch(length=lambda call: 3 * _length(call)),))


@pytest.fixture
def halfway(request: pytest.FixtureRequest) -> Iterator[None]:
    """An operator with these implementations."""
    register_shape_func(NAME)(lambda inputs, attrs: inputs[0].shape)
    Op(
        name=NAME,
        doc="The same elements.",
        inputs=("data",),
        pattern=OpPattern.OPAQUE,
        dtype=like_inputs(NAME, ["data"], ["float32"]),
        kernels=request.param,
    )
    yield
    del REGISTRY[NAME], SHAPE_FUNCS[NAME]


@pytest.mark.parametrize(
    "halfway",
    [
        (
            replace(LITTLE, pays=lambda call: (condition(_length(call), "<", 1000),)),
            Kernel("numpy", in_numpy, in_python=True, attrs=lambda attrs: {}),
        )
    ],
    indirect=True,
)
@pytest.mark.usefixtures("halfway")
@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_a_version_in_python_gets_none(target: str) -> None:
    exe = relay.compile(f"{HEADER}def @main(%x: Tensor[(?n), float32]) {{ {NAME}(%x) }}", target=target)
    assert {(p.group.implementation, p.group.workspace) for p in exe.packed} == {("little", True), ("numpy", True)}
    vm = relay.VirtualMachine(from_bytes(to_bytes(exe)))
    for n in (0, 999, 1000):
        x = np.arange(n, dtype=np.float32)
        np.testing.assert_array_equal(vm.run(x).numpy(), x)


@pytest.mark.parametrize("halfway", [(LITTLE, MUCH)], indirect=True)
@pytest.mark.usefixtures("halfway")
@pytest.mark.parametrize("size", ["?n", "2000"])
def test_a_stand_in_that_needs_more_allocates_it(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exe = relay.compile(f"{HEADER}def @main(%x: Tensor[({size}), float32]) {{ {NAME}(%x) }}")
    assert [(p.group.implementation, p.group.workspace) for p in exe.packed] == [("little", True)]
    real = fallback.kernel_address

    def address(group: Any) -> int:
        if group.implementation == "little":
            raise RuntimeError("no machine code")
        return real(group)

    monkeypatch.setattr(fallback, "kernel_address", address)
    monkeypatch.setattr(fallback, "_REPORTED", set())
    x = np.random.default_rng(0).standard_normal(2000).astype(np.float32)
    with pytest.warns(RuntimeWarning, match="'much' is"):
        vm = relay.VirtualMachine(exe)
    np.testing.assert_array_equal(vm.run(x).numpy(), x)
