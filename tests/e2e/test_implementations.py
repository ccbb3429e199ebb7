"""Every implementation of every operator that has several, forced, against numpy: at sizes of 0 and 1, odd and large ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.ops.core.implementation import HOST as ON_HOST
from relayvm.ops.core.op import REGISTRY
from relayvm.ops.core.tensor_types import numpy_dtype
from relayvm.vm.api.machine import VirtualMachine
from relayvm.vm.bytecode.sync_reason import SyncReason
from relayvm.vm.runtime.tracing.trace_events import KERNEL

from ..devices import HOST
from ..ops.images.test_conv import convolution

HEADER = '#[version = "0.0.5"]\n'
#: The devices whose kernels run on the host.
ON = (HOST, "sim")


@dataclass(frozen=True)
class Case:
    """A call: ``text`` over ``%x`` and ``%y``, whose dims are ``x`` and ``y``; ``oracle`` by numpy; the ``sizes`` to try, of the
    names in these dims in order.  ``refused``: sizes for which an implementation is not right, by its name."""

    op: str
    text: str
    x: str
    y: str
    oracle: Callable[..., Any]
    sizes: Sequence[tuple[int, ...]]
    dtype: str = "float32"
    refused: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def names(self) -> list[str]:
        found = [d.strip() for d in f"{self.x},{self.y}".split(",")]
        return list(dict.fromkeys(d for d in found if d.isalpha()))

    def shape(self, dims: str, sizes: Sequence[int]) -> tuple[int, ...]:
        known = dict(zip(self.names, sizes, strict=True))
        return tuple(known[d] if d in known else int(d) for d in (x.strip() for x in dims.split(",")))

    def program(self, static: Sequence[int] | None = None) -> str:
        """With unknown dims, or with the dims of ``static``."""

        def written(dims: str) -> str:
            listed = (d.strip() for d in dims.split(",")) if static is None else map(str, self.shape(dims, static))
            return ", ".join(f"?{d}" if d.isalpha() else d for d in listed)

        params = [f"%{name}: Tensor[({written(dims)}), {self.dtype}]" for name, dims in (("x", self.x), ("y", self.y)) if dims]
        return f"{HEADER}def @main({', '.join(params)}) {{ {self.text} }}"

    def inputs(self, sizes: Sequence[int]) -> list[np.ndarray]:
        rng = np.random.default_rng(sum(sizes))
        dims = [d for d in (self.x, self.y) if d]
        # few different values: equal ones must keep their order
        return [(rng.integers(-9, 9, self.shape(d, sizes)) / 4).astype(numpy_dtype(self.dtype)) for d in dims]


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True, initial=0))
    return powers / powers.sum(axis, keepdims=True)


def topk(x: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order


PRODUCT_SIZES = [(0, 3, 2), (3, 0, 2), (3, 2, 0), (1, 1, 1), (7, 5, 3), (9, 64, 1), (65, 130, 33)]
ROWS = [(0, 5), (1, 1), (3, 7), (2, 1000), (300, 33)]
SORTED = [(2, 0), (1, 1), (3, 7), (2, 191), (3, 192), (2, 5001)]
BY_TAPS = 'nn.conv2d(%x, %y, padding=(6, 6), dilation=(6, 6), kernel_layout="HWIO")'
CASES = [
    Case("nn.dense", "nn.dense(%x, %y)", "m, k", "n, k", lambda x, y: x @ y.T, PRODUCT_SIZES),
    Case("nn.dense", "nn.dense(%x, %y)", "m, k", "n, k", lambda x, y: x @ y.T, PRODUCT_SIZES, "float64"),
    Case("nn.dense", "nn.dense(%x, %y)", "m, k", "n, k", lambda x, y: x @ y.T, PRODUCT_SIZES[3:6], "float16"),
    Case(
        "nn.matmul",
        "nn.matmul(%x, %y, transpose_a=True, transpose_b=True)",
        "k, m",
        "n, k",
        lambda x, y: x.T @ y.T,
        PRODUCT_SIZES,
        refused=(("rows", (0, 3, 2)), ("rows", (7, 5, 3)), ("rows", (65, 130, 33))),
    ),
    Case("nn.batch_matmul", "nn.batch_matmul(%x, %y)", "2, m, k", "2, n, k", lambda x, y: x @ y.swapaxes(1, 2), PRODUCT_SIZES),
    Case(
        "nn.conv2d",
        "nn.conv2d(%x, %y, padding=(1, 1))",
        "n, 3, h, w",
        "o, 3, 3, 3",
        lambda x, y: convolution(x, y, {"padding": 1}),
        [(0, 4, 4, 2), (1, 1, 1, 1), (2, 7, 5, 3), (1, 33, 31, 9), (2, 4, 5, 0)],
    ),
    Case(
        "nn.conv2d",
        "nn.conv2d(%x, %y)",
        "n, 3, h, w",
        "o, 3, 1, 1",
        lambda x, y: convolution(x, y, {}),
        [(0, 4, 4, 2), (1, 1, 1, 1), (2, 7, 5, 3), (1, 33, 31, 9)],
        "float64",
    ),
    Case(
        "nn.conv2d",
        BY_TAPS,
        "n, 3, h, w",
        "3, 3, 3, o",
        lambda x, y: convolution(x, y.transpose(3, 2, 0, 1), {"padding": 6, "dilation": 6}),
        [(0, 4, 4, 2), (1, 1, 1, 1), (2, 7, 5, 3), (1, 33, 31, 9), (2, 4, 5, 0)],
    ),
    Case("nn.conv1d", "nn.conv1d(%x, %y)", "n, 2, w", "o, 2, 3", lambda x, y: convolution(x, y, {}), [(1, 3, 1), (2, 40, 5)]),
    Case(
        "nn.conv3d",
        "nn.conv3d(%x, %y)",
        "n, 2, d, h, w",
        "o, 2, 1, 2, 1",
        lambda x, y: convolution(x, y, {}),
        [(1, 1, 2, 1, 1), (2, 3, 5, 4, 5)],
    ),
    Case("sort", "sort(%x)", "m, n", "", lambda x: np.sort(x, -1), SORTED),
    Case("argsort", "argsort(%x)", "m, n", "", lambda x: np.argsort(x, -1, kind="stable"), SORTED),
    Case("topk", "topk(%x, k=3)", "m, n", "", lambda x: topk(x, 3), [(0, 3), (1, 3), (3, 7), (3, 96), (2, 5001)]),
    Case("nn.softmax", "nn.softmax(%x)", "m, n", "", lambda x: softmax(x, -1), ROWS),
    Case(
        "nn.softmax",
        "nn.softmax(%x, axis=0)",
        "m, n",
        "",
        lambda x: softmax(x, 0),
        ROWS,
        refused=tuple(("rows", s) for s in ROWS if s[1] != 1),
    ),
    Case("nn.log_softmax", "nn.log_softmax(%x)", "m, n", "", lambda x: np.log(softmax(x, -1)), ROWS),
]


def pairs() -> list[Any]:
    """Each case with each implementation of its operator; the further cases of an operator are extensive."""
    first = {case.op: case for case in reversed(CASES)}
    return [
        pytest.param(
            case,
            kernel.name,
            id=f"{case.text}-{case.dtype}-{kernel.name}",
            marks=[] if case is first[case.op] else pytest.mark.extensive,
        )
        for case in CASES
        for kernel in REGISTRY[case.op].kernels_on(ON_HOST)
    ]


def flat(result: Any) -> list[np.ndarray]:
    return [x.numpy() for x in result] if isinstance(result, (tuple, list)) else [result.numpy()]


def agree(case: Case, sizes: Sequence[int], results: list[np.ndarray]) -> None:
    wanted = case.oracle(*(x.astype(np.float64) for x in case.inputs(sizes)))
    tolerance = 1e-2 if case.dtype == "float16" else 1e-4
    for got, want in zip(results, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=tolerance, atol=tolerance, err_msg=str(sizes))


#: What cannot compute a case, whatever the sizes: the rest must.
NOT_FOR = {
    ("nn.softmax", "float32"): {"half_rows"},
    ("nn.dense", "float16"): {"rows", "tiles", "blas"},
    ("nn.matmul", "nn.matmul(%x, %y, transpose_a=True, transpose_b=True)"): {"tiles"},
    ("nn.conv2d", "nn.conv2d(%x, %y, padding=(1, 1))"): {"pointwise", "positions", "taps"},
    ("nn.conv2d", "float64"): {"winograd", "taps"},
    ("nn.conv2d", BY_TAPS): {"winograd", "groups", "shifts", "rows", "positions", "tiles", "pointwise"},
    ("nn.conv1d", "nn.conv1d(%x, %y)"): {"pointwise", "positions", "taps"},
    ("nn.conv3d", "nn.conv3d(%x, %y)"): {"pointwise", "positions", "taps"},
}


def not_for(case: Case) -> set[str]:
    is_product = case.op in ("nn.dense", "nn.matmul", "nn.batch_matmul")
    others = {"bytes", *(["blocks"] if case.dtype != "float16" else [])} if is_product else {"half_planes"}
    return NOT_FOR.get((case.op, case.dtype), set()) | NOT_FOR.get((case.op, case.text), set()) | others


@pytest.mark.split(2)
@pytest.mark.parametrize(("case", "name"), pairs())
def test_every_implementation_is_right(case: Case, name: str) -> None:
    forced = {f"impl.{case.op}": name}
    if name in not_for(case):
        with pytest.raises(relay.TypeCheckError, match=f"{case.op}: its implementation '{name}' cannot compute a call with"):
            relay.compile(case.program(), **forced)
        return
    machines = [VirtualMachine(relay.compile(case.program(), target, **forced)) for target in ON]
    for sizes in case.sizes:
        if (name, sizes) in case.refused:
            with pytest.raises(relay.TypeCheckError, match=r"it needs .* (<=|==) 1"):
                relay.compile(case.program(sizes), **forced)
            with pytest.raises(relay.VMError, match=f"{case.op}: its implementation '{name}', which is forced, needs"):
                machines[0].run(*case.inputs(sizes))
            continue
        for machine in machines:
            agree(case, sizes, flat(machine.run(*case.inputs(sizes))))
    static = [s for s in case.sizes if (name, s) not in case.refused]
    for sizes in static[-1:]:
        agree(case, sizes, flat(VirtualMachine(relay.compile(case.program(sizes), **forced)).run(*case.inputs(sizes))))


@pytest.mark.extensive
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.text}-{c.dtype}")
def test_what_is_chosen_is_right(case: Case) -> None:
    machine = VirtualMachine(relay.compile(case.program()))
    for sizes in case.sizes:
        agree(case, sizes, flat(machine.run(*case.inputs(sizes))))
        chosen = VirtualMachine(relay.compile(case.program(sizes)))
        agree(case, sizes, flat(chosen.run(*case.inputs(sizes))))
        # what is known when the program is compiled needs no guard; halves become float32, and the result a half
        kernels = [packed for packed in chosen.exe.packed if packed.group.nodes[0].op != "cast"]
        assert len(kernels) == 1 and (len(chosen.exe.packed) > 1) == (case.dtype == "float16")


def launched(machine: VirtualMachine, *args: np.ndarray) -> list[str]:
    """The implementations that a run launches."""
    machine.start_trace()
    flat(machine.run(*args))
    events = machine.stop_trace()
    return [machine.exe.packed[e.subject].group.implementation for e in events if e.kind == KERNEL]


@pytest.mark.parametrize("target", ON)
@pytest.mark.parametrize(
    ("text", "shape", "boundary", "below", "above"),
    [
        ("nn.dense(%x, ones(shape=(5, 6)))", "?n, 6", 8, "rows", "blas"),
        ("sort(%x)", "6, ?n", 191, "merge", "radix"),
        ("topk(%x, k=2)", "6, ?n", 63, "sort", "select"),
    ],
)
def test_a_guarded_version_switches_at_its_boundary(
    target: str, text: str, shape: str, boundary: int, below: str, above: str
) -> None:
    exe = relay.compile(f"{HEADER}def @main(%x: Tensor[({shape}), float32]) {{ {text} }}", target)
    assert sorted(p.group.implementation for p in exe.packed) == sorted([below, above])
    rng = np.random.default_rng(0)
    for n in (2, boundary - 1, boundary, boundary + 1, boundary + 2):
        x = rng.standard_normal((n, 6) if shape == "?n, 6" else (6, n)).astype(np.float32)
        machine = VirtualMachine(exe)
        assert launched(machine, x) == [below if n <= boundary else above]
        # the host waits for the results and for nothing else, and copies nothing else
        waits = {SyncReason.FETCH.key: 1} if target != HOST else {}
        assert machine.sync_reasons == waits


def test_versions_share_what_was_allocated() -> None:
    exe = relay.compile(f"{HEADER}def @main(%x: Tensor[(?n, 6), float32], %w: Tensor[(5, 6), float32]) {{ nn.dense(%x, %w) }}")
    text = exe.disassembly
    assert text.count("InvokePacked") == 2 and text.count("AllocStorageReg") == 1 and text.count("InvokeShapeFunc") == 1


@functools.cache
def _guarded() -> relay.Executable:
    return relay.compile(f"{HEADER}def @main(%x: Tensor[(?n), float32]) {{ sort(%x) }}")


def test_a_file_keeps_implementations_and_reasons(tmp_path: Any) -> None:
    _guarded().save(tmp_path / "sorted.rvm")
    loaded = relay.Executable.load(tmp_path / "sorted.rvm")
    assert loaded.packed == _guarded().packed
    assert [(p.group.implementation, p.because) for p in loaded.packed] == [
        ("radix", "d0 <= 4294967295 and d0 >= 192"),
        ("merge", "otherwise"),
    ]


def test_explain_says_what_was_chosen_and_why() -> None:
    calls = _guarded().explain().calls
    assert [(c.implementation, c.because) for c in calls] == [
        ("radix", "d0 <= 4294967295 and d0 >= 192"),
        ("merge", "otherwise"),
    ]
    assert "merge (otherwise)" in str(_guarded().explain())
