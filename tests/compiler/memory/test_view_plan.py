"""Views and concatenations in plans: used if they cost no memory, never if a small result would hold a large one; with equal
results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.ir.anf import values
from relayvm.compiler.ir.expr import Call
from relayvm.compiler.memory import liveness, materialise_views
from relayvm.ops.core.op import Op
from relayvm.ops.defs.machine import machine_ops
from relayvm.vm.options import POISON_VARIABLE

from ...programs import HEADER
from .overlaps import dead_reads
from .planned import planned

#: A row is a line of memory.
ROWS = "Tensor[(?{n}, 16), float32]"
X, Y, W = ROWS.format(n="n"), ROWS.format(n="m"), "Tensor[(16, 16), float32]"


def count(text: str, op: Op, name: str = "main", **config: Any) -> int:
    """The number of calls of ``op`` in a planned function."""
    return sum(isinstance(v, Call) and v.op is op for v in values(planned(text, **config)[name].body))


def views(text: str, **config: Any) -> int:
    return count(text, machine_ops.SLICE_TENSOR, **config)


def matrix(rows: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((rows, 16)).astype(np.float32)


def runs_alike(text: str, *inputs: np.ndarray, target: str = "cpu") -> None:
    """Assert that the program returns the same with and without a plan, twice, and that no memory leaks."""
    results = []
    for plan in ("off", "on"):
        vm = relay.VirtualMachine(relay.compile(HEADER + text, target=target, plan=plan))
        results += [vm.run(*inputs).numpy().copy() for _ in range(2)]
        assert vm.memory["live_bytes"] == 0
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=1e-5, atol=1e-5)


# ---- views of a value ----------------------------------------------------------------------------------------------

SLICE = f"def @main(%x: {X}, %w: {W}) {{ nn.dense(strided_slice(%x, begin=[BEGIN], end=[END]), %w) }}"


@pytest.mark.parametrize("rows", [0, 1, 2, 3, 7])
@pytest.mark.parametrize(("begin", "end"), [(0, 2), (1, 3), (-2, 99), (2, -1), (5, 6)])
@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.extensive(begin=[1, -2], rows=[0, 3])
def test_a_slice_of_an_argument_is_a_view(begin: int, end: int, rows: int, target: str) -> None:
    text = SLICE.replace("BEGIN", str(begin)).replace("END", str(end))
    assert (views(text), count(text, machine_ops.INVOKE_OP)) == (1, 2)  # two versions of the product
    vm = relay.VirtualMachine(relay.compile(HEADER + text, target=target))
    x, w = matrix(rows), matrix(16, 1)
    for _ in range(2):
        np.testing.assert_allclose(vm.run(x, w).numpy(), x[begin:end] @ w.T, rtol=1e-4, atol=1e-5)


def test_all_parts_of_a_split_are_views_where_they_are_used_together() -> None:
    text = (
        f"def @main(%x: {W}) {{ let %d = nn.dense(%x, %x); let %s = split(%d, indices_or_sections=2); "
        "nn.dense(nn.softmax(%s.0), nn.softmax(%s.1)) }"
    )
    assert views(text) == 2
    runs_alike(text, matrix(16))


@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize("poison", ["0", "1"])
def test_a_part_of_a_vector_that_holds_its_elements_itself(target: str, poison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A view of the part outlives it: it must not point into an object that is reused by then."""
    monkeypatch.setenv(POISON_VARIABLE, poison)
    text = (
        'def @main(%x: Tensor[(?n, ?m, ?k), float32]) { let %s = shape_of(%x, dtype="int64"); '
        "let %p = strided_slice(%s, begin=[1], end=[3]); let %r = reshape(%p, newshape=[2, 1]); "
        "let %a = exp(sum(sum(%x, axis=[0]), axis=[0])); (multiply(%r, %r), %a, multiply(%s, %s)) }"
    )
    vm = relay.VirtualMachine(relay.compile(HEADER + text, target=target, fuse="off"))
    assert vm.exe.disassembly.count("SliceTensor") == 1
    for _ in range(3):
        squares, _, whole = vm.run(np.zeros((3, 4, 5), np.float32))
        np.testing.assert_array_equal(squares.numpy(), [[16], [25]])
        np.testing.assert_array_equal(whole.numpy(), [9, 16, 25])


@pytest.mark.parametrize("target", ["cpu", "sim"])
@pytest.mark.parametrize("poison", ["0", "1"])
def test_parts_of_parts_of_such_a_vector(target: str, poison: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POISON_VARIABLE, poison)
    text = (
        'def @main(%x: Tensor[(?a, ?b, ?c, ?d), float32]) { let %s = shape_of(%x, dtype="int64"); '
        "let %p = strided_slice(%s, begin=[1], end=[4]); let %q = strided_slice(%p, begin=[1], end=[3]); "
        "let %r = reshape(%q, newshape=[2, 1]); let %u = strided_slice(%r, begin=[1], end=[2]); "
        "let %e = exp(sum(sum(sum(%x, axis=[0]), axis=[0]), axis=[0])); "
        "(multiply(%u, %u), %e, multiply(%r, %r), multiply(%q, %q), multiply(%p, %p), multiply(%s, %s)) }"
    )
    vm = relay.VirtualMachine(relay.compile(HEADER + text, target=target, fuse="off"))
    assert vm.exe.disassembly.count("SliceTensor") == 3
    for _ in range(3):
        last, _, *others = vm.run(np.zeros((2, 3, 4, 5), np.float32))
        squares = np.array([4, 9, 16, 25])
        np.testing.assert_array_equal(last.numpy(), [[25]])
        for found, first in zip(others, (2, 2, 1, 0), strict=True):
            np.testing.assert_array_equal(found.numpy().reshape(-1), squares[first:])


def test_nothing_is_written_over_a_part() -> None:
    """The softmax could overwrite its input, if that were not a view of a tensor that is read again."""
    text = f"def @main(%x: {X}) {{ let %a = exp(%x); "
    text += "let %b = strided_slice(%a, begin=[1], end=[3]); add(sum(nn.softmax(%b)), sum(%a)) }"
    runs_alike(text, matrix(5))


CAPTURED = """
def @main(%x: Tensor[(?, ?), float32], %c: bool, %n: int64, %y: Tensor[(?, ?), float32]) {
  let %padded = nn.mirror_pad(%x, pad_width=[[0, 0], [0, 1]]);
  let %f = fn (%c1: bool, %n1: int64, %y1: Tensor[(?, ?), float32]) -> Tensor[(?, ?), float32] {
    let %part = if (%c1) {
      let %parts = split(%padded, indices_or_sections=[1, 1, 4]);
      %parts.0
    } else {
      let %z = @loop(%n1, %y1);
      %y1
    };
    %y1
  };
  @call(%f, %c, %n, %y)
}
def @loop(%n: int64, %x: Tensor[(?, ?), float32]) -> Tensor[(?, ?), float32] {
  if (greater(%n, 0i64)) { @loop(subtract(%n, 1i64), concatenate((%x, %x))) } else { %x }
}
def @call(
  %g: fn (bool, int64, Tensor[(?, ?), float32]) -> Tensor[(?, ?), float32], %c: bool, %n: int64, %y: Tensor[(?, ?), float32]
) -> Tensor[(?, ?), float32] { %g(%c, %n, %y) }"""


def test_a_part_whose_offset_no_tensor_has() -> None:
    """A captured tensor has an axis of size n + 1, and nothing has size n."""
    vm = relay.VirtualMachine(relay.compile(HEADER + CAPTURED, target="cpu", opt_level=1))
    for chosen in (False, True):
        np.testing.assert_array_equal(vm.run(matrix(5), np.array(chosen), np.array(2), matrix(3, 1)).numpy(), matrix(3, 1))


# ---- inputs of a join ----------------------------------------------------------------------------------------------

JOIN = f"def @main(%x: {X}, %y: {Y}, %w: {W}) {{ nn.dense(concatenate((nn.dense(%x, %w), nn.dense(%y, %w)), axis=0), %w) }}"


@pytest.mark.parametrize("target", ["cpu", "sim"])
def test_a_join_is_written_by_what_makes_its_parts(target: str) -> None:
    assert views(JOIN) == 2
    assert "invoke_op(@concatenate" not in planned(JOIN).astext()
    assert count(JOIN, machine_ops.ALLOC_STORAGE_REG) == 2
    for n, m in ((0, 0), (0, 3), (1, 0), (1, 1), (9, 4)):
        runs_alike(JOIN, matrix(n), matrix(m, 1), matrix(16, 2), target=target)


def test_static_and_open_sizes_agree() -> None:
    fixed = JOIN.replace("?n", "5").replace("?m", "9")
    assert (views(fixed), count(fixed, machine_ops.SIZES)) == (2, 0)
    x, y, w = matrix(5), matrix(9, 1), matrix(16, 2)
    a, b = (relay.VirtualMachine(relay.compile(HEADER + t)).run(x, y, w).numpy() for t in (fixed, JOIN))
    np.testing.assert_allclose(a, b, rtol=1e-5)
    np.testing.assert_allclose(a, np.concatenate([x @ w.T, y @ w.T]) @ w.T, rtol=1e-4, atol=1e-4)


def test_a_join_that_is_the_result() -> None:
    text = f"def @main(%x: {X}, %y: {Y}, %w: {W}) {{ concatenate((nn.dense(%x, %w), nn.dense(%y, %w)), axis=0) }}"
    assert (views(text), count(text, machine_ops.ALLOC_STORAGE_REG)) == (2, 1)
    runs_alike(text, matrix(3), matrix(4, 1), matrix(16, 2))


def test_a_join_of_a_join() -> None:
    text = (
        f"def @main(%x: {X}, %y: {Y}, %w: {W}) {{ let %a = concatenate((nn.dense(%x, %w), nn.dense(%y, %w)), axis=0); "
        "nn.dense(concatenate((%a, nn.dense(%a, %w)), axis=0), %w) }"
    )
    assert (views(text), count(text, machine_ops.ALLOC_STORAGE_REG)) == (4, 2)
    for n, m in ((0, 0), (1, 0), (2, 5)):
        runs_alike(text, matrix(n), matrix(m, 1), matrix(16, 2))


def test_a_part_that_is_reshaped_first() -> None:
    text = (
        "def @main(%x: Tensor[(?n, 4, 4), float32], %w: Tensor[(16, 16), float32]) { "
        "nn.dense(concatenate((reshape(nn.softmax(%x), newshape=[-1, 16]), nn.dense(%w, %w)), axis=0), %w) }"
    )
    assert views(text) == 2
    runs_alike(text, matrix(3).reshape(3, 4, 4), matrix(16, 1))


def test_a_join_in_a_branch() -> None:
    text = (
        f"def @main(%x: {X}, %y: {Y}, %w: {W}) {{ let %a = nn.dense(%x, %w); if (less(sum(%y), 0f)) "
        "{ nn.dense(concatenate((%a, nn.dense(%y, %w)), axis=0), %w) } else { nn.softmax(%a) } }"
    )
    for sign in (1, -1):
        runs_alike(text, matrix(3), sign * np.abs(matrix(4)), matrix(16, 2))
    assert dead_reads(planned(text.replace("?n", "3").replace("?m", "4"))) == []


@pytest.mark.parametrize(
    ("why", "text"),
    [
        ("a part leaves", "let %a = nn.dense(%x, %w); (%a, nn.dense(concatenate((%a, nn.dense(%y, %w)), axis=0), %w))"),
        ("a part is there twice", "let %a = nn.dense(%x, %w); nn.dense(concatenate((%a, %a), axis=0), %w)"),
        ("a part is an argument", "nn.dense(concatenate((%x, nn.dense(%y, %w)), axis=0), %w)"),
        ("they lie side by side", "nn.softmax(concatenate((nn.dense(%w, %w), nn.dense(%w, %w)), axis=1))"),
        ("it computes", "concatenate((exp(nn.dense(%x, %w)), nn.dense(%y, %w)), axis=0)"),
    ],
)  # fmt: skip
def test_no_join_where(why: str, text: str) -> None:
    text = f"def @main(%x: {X}, %y: {Y}, %w: {W}) {{ {text} }}"
    assert views(text) == 0, why


def test_no_join_of_parts_that_do_not_begin_at_a_line() -> None:
    text = JOIN.replace("16", "12")
    assert views(text) == 0
    assert views(JOIN) == 2


def test_no_join_where_its_size_is_not_known_in_time() -> None:
    text = (
        f"def @main(%x: {X}, %w: {W}) {{ let %a = nn.dense(%x, %w); "
        "let %k = take(%x, reshape(argwhere(less(%a, 0f)), newshape=[-1]), axis=0); "
        "nn.dense(concatenate((%a, nn.dense(nn.softmax(%k), %w)), axis=0), %w) }"
    )
    assert views(text) == 0
    runs_alike(text, matrix(4), matrix(16, 1))


def test_less_is_held() -> None:
    x, y, w = matrix(4000), matrix(3000, 1), matrix(16, 2)
    held = {}
    for plan in ("off", "on"):
        vm = relay.VirtualMachine(relay.compile(HEADER + JOIN, plan=plan))
        vm.run(x, y, w)
        held[plan] = vm.memory["pool_bytes"]
    # parts, what they are joined to and the result, or the last two only
    assert held["on"] < 0.75 * held["off"]


# ---- an error is found ---------------------------------------------------------------------------------------------

FIXED = JOIN.replace("?n", "3").replace("?m", "4")


def test_a_part_at_a_wrong_place_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dead_reads(planned(FIXED)) == []
    monkeypatch.setattr(materialise_views._ViewMaterialiser, "constant", _halved(materialise_views._ViewMaterialiser.constant))
    assert dead_reads(planned(FIXED)) != []


def _halved(constant: Any) -> Any:
    return lambda self, sizes: constant(self, tuple(n // 2 for n in sizes) if len(sizes) == 1 else sizes)


def test_a_part_that_is_taken_for_the_whole_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def @main(%x: Tensor[(4, 16), float32]) { nn.softmax(strided_slice(reverse(%x, axis=1), begin=[1], end=[3])) }"
    assert views(text, fuse="off") == 1
    assert dead_reads(planned(text, fuse="off")) == []
    monkeypatch.setattr(liveness.Liveness, "shifted", property(lambda roots: set(), lambda roots, value: None), raising=False)
    assert dead_reads(planned(text, fuse="off")) == [
        "@main: @nn_softmax_over_p0 writes %softmax over %strided_slice, not from its first byte on"
    ]
