"""Gathers whose indices are positions: views of their data, if every element is in its place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import relayvm as relay
from relayvm.compiler.commands.cli import main

from ...programs import HEADER

SIZES = 'let %s = shape_of(%x, dtype="int64"); let %n = take(%s, 0i64, axis=0); let %m = take(%s, 1i64, axis=0);'
POSITIONS = (
    'let %i = reshape(arange(0i64, %n, 1i64, dtype="int64"), newshape=[-1, 1, 1]);'
    'let %j = reshape(arange(0i64, %m, 1i64, dtype="int64"), newshape=[1, 1, -1]);'
)
SHAPE = 'shape_of(maximum(%i, %j), dtype="int64")'
STACKED = f"stack((dyn.broadcast_to(%i, {SHAPE}), dyn.broadcast_to(%j, {SHAPE})), axis=0)"
FLAT = "reshape(%x, newshape=[-1])"
#: Gathers of the elements of ``x`` in their order, and others.
GATHERS = [
    ("adv_index((%x, %i, %j))", True),
    (f"gather_nd(%x, {STACKED})", True),
    (f"gather_nd(%x, where(less({STACKED}, 0i64), add({STACKED}, 5i64), {STACKED}))", True),
    (f'take({FLAT}, add(multiply(%i, %m), %j), axis=0, mode="fast")', True),
    (f'take({FLAT}, add(%j, multiply(take(%s, [1], axis=0), %i)), mode="fast")', True),
    ('take(%x, arange(0i64, %n, 1i64, dtype="int64"), axis=0, mode="fast")', True),
    ('gather(%x, dyn.broadcast_to(reshape(arange(0i64, %m, 1i64, dtype="int64"), newshape=[1, -1]), %s), axis=1)', True),
    ("adv_index((%x, %i, multiply(%j, -1i64)))", False),
    ("adv_index((%x, %i, subtract(%j, 1i64)))", False),
    ("adv_index((%x, %i, minimum(%j, 2i64)))", False),
    (f'take({FLAT}, add(multiply(%j, %n), %i), axis=0, mode="fast")', False),  # the elements of the transpose
    ('take(%x, arange(0i64, %n, 1i64, dtype="int64"), axis=0, mode="wrap")', False),  # right, but no rule says so
]


def _compiled(gather: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """A program, and whether it gathers after its compilation."""
    text = HEADER + f"def @main(%x: Tensor[(?n, ?m), float32]) {{ {SIZES} {POSITIONS} {gather} }}"
    (tmp_path / "gather.relay").write_text(text)
    assert main(["dump", str(tmp_path / "gather.relay"), "--stage", "fused"]) == 0
    return text, capsys.readouterr().out


@pytest.mark.parametrize("gather, in_order", GATHERS)
def test_a_gather_of_every_element_in_order_is_a_view(
    gather: str, in_order: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, fused = _compiled(gather, tmp_path, capsys)
    assert (gather.split("(")[0] + "(%p" in fused) == (not in_order)
    assert not in_order or "arange" not in fused, "the indices are dead"
    machines = [relay.VirtualMachine(relay.compile(text, opt_level=level)) for level in (2, 0)]
    for shape in ((3, 5), (5, 3), (1, 4), (4, 1), (1, 1), (0, 3), (3, 0)):
        x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        if "subtract" in gather and not x.size:
            continue
        found, plain = (vm.run(x).numpy() for vm in machines)
        assert found.shape == plain.shape
        np.testing.assert_array_equal(found, plain)
        assert not in_order or found.reshape(-1).tolist() == x.reshape(-1).tolist()


def test_more_indices_than_elements_stay_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Positions of one tensor are no indices of another, though at run time the sizes may be the same."""
    text = (
        HEADER + "def @main(%x: Tensor[(?n, ?m), float32], %y: Tensor[(?k, ?m), float32]) {"
        ' let %k = take(shape_of(%y, dtype="int64"), 0i64, axis=0);'
        ' take(%x, arange(0i64, %k, 1i64, dtype="int64"), axis=0, mode="fast") }'
    )
    vm = relay.VirtualMachine(relay.compile(text))
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    for k in (0, 2, 3):
        assert vm.run(x, np.zeros((k, 2), np.float32)).numpy().tolist() == x[:k].tolist()
    with pytest.raises(relay.VMError, match="index"):
        vm.run(x, np.zeros((4, 2), np.float32))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_one_over_a_square_root(dtype: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is ``rsqrt`` where its steps are not rounded one by one."""
    one = {"float32": "1f", "float64": "1f64"}.get(dtype, f'cast(1f, dtype="{dtype}")')
    text = HEADER + f'def @main(%x: Tensor[(?n), {dtype}]) {{ divide({one}, sqrt(power(%x, cast(2f, dtype="{dtype}")))) }}'
    (tmp_path / "root.relay").write_text(text)
    assert main(["dump", str(tmp_path / "root.relay"), "--stage", "fused"]) == 0
    fused = capsys.readouterr().out
    assert ("rsqrt(" in fused) == (dtype in ("float32", "float64")) and "power(" not in fused
    if dtype in ("float32", "float64"):
        x = np.array([0, 1, -2, 1e-3, 7, np.inf, np.nan, 1e-30, -0.0], dtype)
        found, plain = (relay.VirtualMachine(relay.compile(text, opt_level=level)).run(x).numpy() for level in (2, 0))
        np.testing.assert_array_equal(found, plain)
