"""Kernels work in the memory that they declare: every operator whose kernel has scratch, in exactly as many bytes and no more.

In plain Python every load and store is checked to access registered memory; in machine code guard bytes follow the
workspace.  Every allocation fails.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest

from relayvm.ops.analysis.untrusted_group import group_from_json
from relayvm.ops.codegen.cpu import opaque_kernel
from relayvm.ops.core.conditions import undecided
from relayvm.ops.core.group import Group
from relayvm.ops.core.implementation import ALIGNMENT, HOST, Scratch
from relayvm.ops.core.op import Op, get
from relayvm.ops.core.tensor_types import HALVES, numpy_dtype
from relayvm.ops.core.type_relation import shape_program
from relayvm.ops.kernels.matmul import half_panels
from relayvm.ops.native import memory
from relayvm.ops.native.status import OUT_OF_MEMORY
from relayvm.ops.native.threads.work_partition import is_first
from relayvm.shape_funcs.symbolic.dim import const, dim, sym, total

from ... import tiers
from ..every_op import all_recipes  # noqa: F401
from ..every_op.drawing import CLASSES, Draw
from ..every_op.program import same
from ..every_op.recipe import Call, dtypes_of, flags_of, group_of, operators, recipe_of
from . import opaque_kernels

SMALL = tuple(size for size in CLASSES if size != "large")
PATTERN, GUARD = 0xA5, 256


def works_in_buffers(op: Op) -> bool:
    return any(k.scratch for k in op.kernels)


OPERATORS = [op for op in operators() if works_in_buffers(op)]


def groups(op: Op, made: Call, static: bool) -> Iterator[Group]:
    """The group of a call by each implementation that has scratch and is right for these sizes."""
    known = [tuple(map(dim, x.shape)) for x in made.flat]
    unknown = [tuple(sym(f"d{10 * k + a}") for a in range(x.ndim)) for k, x in enumerate(made.flat)]
    fixed = [
        tuple(
            n if flag or (k, axis) in made.fixed or static else u
            for axis, (n, u) in enumerate(zip(known[k], unknown[k], strict=True))
        )
        for k, flag in enumerate(flags_of(op, made))
    ]
    call = group_of(op, made, known).call_on()
    for kernel in op.kernels_on(HOST):
        if kernel.scratch and kernel.takes(call) and undecided(kernel.fits(call)) == ():
            yield replace(group_of(op, made, fixed), implementation=kernel.name, workspace=True)


#: Operators with buffers that some CPUs do not use, and whether this one does not.  Programs move between machines: all declare
#: them.
UNUSED = {"nn.dense_panels": half_panels.widens_in_tiles}


class Ran:
    """A kernel that ran in a workspace of the size declared, with guard bytes behind it."""

    def __init__(
        self, group: Group, inputs: Sequence[np.ndarray], jit: bool, share: np.ndarray = opaque_kernels.team.ALONE
    ) -> None:
        *shapes, (self.nbytes,) = shape_program(group, sizes=[opaque_kernel.workspace(group)]).program.run(inputs)
        values = group.values()
        self.results = [np.full(s, 77, numpy_dtype(values[r].dtype)) for r, s in zip(group.results, shapes, strict=True)]
        self.counts = np.zeros(1, np.int64)
        counts = [self.counts] if group.nodes[0].operator.shape_func.upper_bound else []
        # as in a storage
        self.aligned = np.empty(self.nbytes + GUARD + ALIGNMENT, np.uint8)
        start = -self.aligned.ctypes.data % ALIGNMENT
        self.bytes = self.aligned[start : start + self.nbytes + GUARD]
        self.bytes[:] = PATTERN
        arrays = [np.ascontiguousarray(x).reshape(x.shape) for x in inputs]
        tensors = [*arrays, *self.results, *counts, self.bytes[: self.nbytes]]
        assert len(tensors) == len(group.params) + group.n_outputs
        self.status = opaque_kernels.call(opaque_kernel.source(group), tensors, jit=jit, share=share)

    def agrees(self, made: Call) -> None:
        assert self.status == 0 and not isinstance(made.wanted, str)
        assert (self.bytes[self.nbytes :] == PATTERN).all(), "written behind its workspace"
        for result, wanted in zip(self.results, made.wanted, strict=True):
            # elements after the count of a counting kernel are undefined
            same(result[: len(wanted)] if result.shape != wanted.shape else result, wanted, made.tolerance)


@pytest.fixture
def no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every allocation fail in plain Python."""
    monkeypatch.setattr(memory, "alloc", lambda nbytes: 0)


def calls(op: Op, sizes: Sequence[str], part: int = 1) -> Iterator[tuple[str, Call]]:
    """Calls with the first dtype and with halves; in a tier with one in ``part`` of these dtypes."""
    found = dtypes_of(op.name)
    dtypes = list(dict.fromkeys((found[0], *(d for d in found if d in HALVES[:1]))))
    for dtype in tiers.some(dtypes, op.name, part):
        for size in sizes:
            made = recipe_of(op.name).make(Draw(dtype, size), op.name)
            # a call that is expanded has no kernel
            is_legal = op.legalization is None or op.is_legal(tuple(x.dtype.name for x in made.flat), op.attrs(**made.attrs))
            if is_legal and not isinstance(made.wanted, str):
                yield size, made


@pytest.mark.split(2)
@pytest.mark.usefixtures("no_memory")
@pytest.mark.parametrize("static", [False, True], ids=["any", "static"])
@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_what_a_kernel_declares_is_enough(op: Op, static: bool) -> None:
    seen = 0
    for _, made in calls(op, SMALL):
        for group in groups(op, made, static):
            declared, kernel = opaque_kernel.workspace(group), group.kernel_on(HOST)
            assert kernel is not None
            # without a planned pair the sums are in the result
            buffers = kernel.buffers(group.call_on())[: -1 if kernel.apart == "over" else None]
            assert declared is total(buffer.nbytes for buffer in buffers)
            assert any(op.data_dependent) or static <= (const(declared) is not None)
            Ran(group, made.flat, jit=False).agrees(made)
            seen += 1
    assert seen, f"{op.name}: no call was tried"


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
@pytest.mark.extensive
def test_what_a_kernel_declares_is_enough_for_machine_code(op: Op) -> None:
    for _, made in calls(op, ("large",), part=2):
        for group in groups(op, made, False):
            ran = Ran(group, made.flat, jit=True)
            ran.agrees(made)
            is_used = ran.nbytes == 0 or bool((ran.bytes[: ran.nbytes] != PATTERN).any())
            assert is_used or UNUSED.get(op.name, bool)(), "it worked somewhere else"


def test_the_operators_are_those_with_buffers() -> None:
    products = {
        "nn.dense",
        "nn.matmul",
        "nn.batch_matmul",
        *(f"nn.conv{n}d{kind}" for n in (1, 2, 3) for kind in ("", "_transpose")),
    }
    ordered = {
        "sort",
        "argsort",
        "topk",
        "dyn.topk",
        "unique",
        "vision.non_max_suppression",
        "vision.all_class_non_max_suppression",
    }
    others = {"dft", "stft", "scatter_elements", "scatter_nd", "nn.softmax", "nn.log_softmax", "nn.avg_pool2d"}
    assert products | ordered | others <= {op.name for op in OPERATORS}


def sorting(n: int, workspace: bool = True) -> tuple[Group, np.ndarray]:
    x = np.random.default_rng(n).permutation(n).astype(np.float32)
    group = opaque_kernels.group_of("sort", get("sort").attrs(), [x])
    return replace(group, implementation="merge", workspace=workspace), x


def test_one_byte_less_than_it_needs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = memory.alloc
    monkeypatch.setattr(memory, "alloc", lambda nbytes: (asked.append(nbytes), real(nbytes))[1])
    group, x = sorting(50)
    source = opaque_kernel.source(group)
    for missing in (0, 1):
        out, held = np.zeros_like(x), np.full(Ran(group, [x], jit=False).nbytes - missing, PATTERN, np.uint8)
        assert opaque_kernels.call(source, [x, out, held]) == 0
        assert out.tolist() == sorted(x) and len(asked) == missing and (held == PATTERN).all() == bool(missing)


def test_only_the_first_part_of_a_call_has_the_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = memory.alloc
    monkeypatch.setattr(memory, "alloc", lambda nbytes: (asked.append(nbytes), real(nbytes))[1])
    x = np.random.default_rng(0).standard_normal((6, 50)).astype(np.float32)
    group = opaque_kernels.group_of("sort", get("sort").attrs(), [x])
    group = replace(group, implementation="merge", workspace=True)
    out, held = np.zeros_like(x), np.zeros(4096, np.uint8)
    for part in range(3):
        share = np.array([(part, 3, 1 << 62, 1, 1)], opaque_kernels.team.SHARE)
        assert is_first(share.ctypes.data) == (part == 0)
        assert opaque_kernels.call(opaque_kernel.source(group), [x, out, held], share=share) == 0
        assert len(asked) == part
    np.testing.assert_array_equal(out, np.sort(x))


@pytest.mark.usefixtures("no_memory")
def test_without_a_workspace_it_is_allocated() -> None:
    group, x = sorting(5, workspace=False)
    assert opaque_kernels.call(opaque_kernel.source(group), [x, np.zeros_like(x)]) == OUT_OF_MEMORY


def test_a_kernel_that_declares_too_little_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    op = get("dft")
    (kernel,) = op.kernels_on(HOST)
    enough = kernel.scratch[0].length
    assert callable(enough)
    too_short = Scratch("float64", length=lambda call: enough(call) - 1)
    monkeypatch.setitem(vars(kernel), "scratch", (too_short,))
    # equal groups share their source
    monkeypatch.setattr(opaque_kernel, "source", inspect.unwrap(opaque_kernel.source))
    _, made = next(calls(op, ("odd",)))
    (group,) = groups(op, made, True)
    with pytest.raises((IndexError, AssertionError)):
        Ran(group, made.flat, jit=False).agrees(made)


def test_a_group_keeps_its_workspace() -> None:
    x = np.zeros(5, np.float32)
    group = replace(opaque_kernels.group_of("sort", get("sort").attrs(), [x], known=[0]), workspace=True)
    data = group.to_json()
    assert group_from_json(data) == group and group_from_json({**data, "workspace": False}) != group
    assert group.key() != replace(group, workspace=False).key()
    for wrong in (1, None, "yes"):
        with pytest.raises(ValueError, match="whether it has a workspace is"):
            group_from_json({**data, "workspace": wrong})
    fused = opaque_kernels.group_of("exp", get("exp").attrs(), [x], known=[0]).to_json()
    with pytest.raises(ValueError, match="its kernel takes no workspace"):
        group_from_json({**fused, "workspace": True})
