"""Programs that torch exports: results, parameters, checks of sizes, mistakes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import relayvm as relay  # noqa: E402  torch may be missing
from relayvm.compiler.commands.cli import main  # noqa: E402

from .beside_torch import Of, machine_of, program_of, results  # noqa: E402

from_torch = relay.frontend.from_torch


class Counting(torch.nn.Module):
    """A module that writes a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x: Any) -> Any:
        self.count.add_(x)
        return x * 2


def test_written_buffers_are_results_after_those_of_the_module() -> None:
    module, _ = from_torch(Counting(), (torch.ones(2),))
    found = results(relay.VirtualMachine(relay.compile(module)).run(np.ones(2, np.float32)))
    assert [a.tolist() for a in found] == [[2.0, 2.0], [1.0, 1.0]]


def test_a_file_beside_torch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`relayvm compare program.pt2 --against torch`: results of the module, not the new values of its buffers."""
    torch.export.save(program_of(Counting(), (torch.ones(2),), ({},)), tmp_path / "p.pt2")
    assert main(["compare", str(tmp_path / "p.pt2"), "--against", "torch", "--repeat", "1"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[1].startswith("result result.0, float32[2]: agrees") and "result.1" not in out
    (tmp_path / "p.pt2").write_text("no program")
    assert main(["compare", str(tmp_path / "p.pt2"), "--against", "torch"]) == 5
    assert "is no program of torch" in capsys.readouterr().err


class Doubling(torch.nn.Module):
    """A loop that ends when a value says so, over rows of any number."""

    def forward(self, x: Any, limit: Any) -> Any:
        from torch._higher_order_ops import while_loop

        def is_small(number: Any, rows: Any) -> Any:
            return rows.sum() < limit

        def doubled(number: Any, rows: Any) -> Any:
            return number + 1, rows * 2

        return while_loop(is_small, doubled, (torch.zeros((), dtype=torch.int64), x))


def test_a_loop_that_a_value_ends() -> None:
    shapes = ({0: torch.export.Dim("n")}, {})
    vm = machine_of(program_of(Doubling(), (torch.ones(3), torch.tensor(10.0)), shapes))
    for n, limit in ((3, 10.0), (5, 1.0), (1, 1000.0)):
        x = torch.full((n,), 0.75)
        number, rows = results(vm.run(x.numpy(), np.float32(limit)))
        wanted, count = x.numpy(), 0
        while wanted.sum() < limit:
            wanted, count = wanted * 2, count + 1
        assert (int(number), rows.tolist()) == (count, wanted.tolist())


class Decaying(torch.nn.Module):
    """A scan over rows, with a state and a result for each row."""

    def forward(self, x: Any, state: Any) -> Any:
        from torch._higher_order_ops.scan import scan

        def step(carried: Any, row: Any) -> Any:
            following = carried * 0.5 + row
            return following, (following * following).sum(-1)

        return scan(step, state, x)


def test_a_scan_over_any_number_of_rows() -> None:
    vm = machine_of(program_of(Decaying(), (torch.ones(5, 3), torch.zeros(3)), ({0: torch.export.Dim("n")}, {})))
    for n in (5, 2, 0):
        x, state, sums = torch.randn(n, 3), torch.ones(3), []
        last, found = results(vm.run(x.numpy(), state.numpy()))
        for row in x:
            state = state * 0.5 + row
            sums.append(float((state * state).sum()))
        np.testing.assert_allclose(last, state, rtol=1e-5)
        np.testing.assert_allclose(found, sums, rtol=1e-5)


class Rows(torch.nn.Module):
    """A function of each row, with two results."""

    def forward(self, x: Any, shift: Any) -> Any:
        from torch._higher_order_ops.map import map as each

        return each(lambda row, shift: ((row * shift).sum(), row + shift), x, shift)


def test_a_map_over_any_number_of_rows() -> None:
    vm = machine_of(program_of(Rows(), (torch.ones(5, 3), torch.ones(3)), ({0: torch.export.Dim("n")}, {})))
    for n in (5, 1, 0):
        x, shift = torch.randn(n, 3), torch.randn(3)
        sums, rows = results(vm.run(x.numpy(), shift.numpy()))
        np.testing.assert_allclose(sums, (x * shift).sum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(rows, x + shift, rtol=1e-5)


def test_compile_takes_an_exported_program() -> None:
    vm = relay.VirtualMachine(relay.compile(torch.export.export(torch.nn.ReLU(), (torch.ones(3),))))
    assert vm.run(np.array([-1, 0, 2], "float32")).tolist() == [0.0, 0.0, 2.0]


def test_parameters_that_are_not_frozen_have_names_and_values() -> None:
    linear = torch.nn.Linear(4, 2)
    module, params = from_torch(linear, (torch.ones(3, 4),), freeze_params=False)
    weight, bias = params.values()
    assert weight.tolist() == linear.weight.tolist() and bias.tolist() == linear.bias.tolist()
    assert {v.name for v in module["main"].params[1:]} == set(params)
    x = torch.randn(3, 4)
    given = relay.VirtualMachine(relay.compile(module)).run(x.numpy(), **params)
    np.testing.assert_allclose(given.numpy(), linear(x).detach().numpy(), rtol=1e-5)
    assert from_torch(linear, (torch.ones(3, 4),))[1] == {}


def _asserting(x: Any) -> Any:
    n = x.sum().to(torch.int64).item()
    torch._check(n < 7)
    torch._check(n >= 0)
    return torch.zeros(n)


AUTO = torch.export.Dim.AUTO
CHECKS = {
    "a multiple": (
        lambda x: x.view(x.shape[0] // 2, 2, -1), {0: 2 * torch.export.Dim("h")}, (6, 2), 3,
        r"2\*s\d+ is the size of axis 0 of %a\w*_0, which is 3, not 2",
    ),
    "a bound": (
        lambda x: x * 2, {0: torch.export.Dim("n", max=10)}, (10, 3, 1, 0), 11,
        r"the size of axis 0 of %a\w*_0 is 11; the nearest size that the program was exported for is 10",
    ),
    "an assertion": (_asserting, {0: AUTO}, (6, 3), 9, r"Runtime assertion failed for expression u0 <= 6"),
}  # fmt: skip


@pytest.mark.parametrize("name", CHECKS)
def test_sizes_are_checked(name: str) -> None:
    function, open_axes, good, bad, message = CHECKS[name]
    shape = () if name == "an assertion" else (4,)
    module = Of(function)
    machine = machine_of(program_of(module, (torch.ones(good[0], *shape),), (open_axes,)))
    for n in good:
        x = torch.ones(n, *shape)
        assert results(machine.run(x.numpy()))[0].shape == module(x).shape
    with pytest.raises(relay.VMError, match=message):
        machine.run(np.ones((bad, *shape), np.float32))


def _message(*args: Any) -> str:
    with pytest.raises(relay.RelayError) as caught:
        from_torch(*args)
    return re.sub(r"\n *-->.*", "", str(caught.value), flags=re.DOTALL)


def test_mistakes() -> None:
    x = torch.rand(3, 4)
    assert _message(3) == (
        "error: from_torch: program must be a torch.export.ExportedProgram, or a torch.nn.Module with example arguments, "
        "not the int 3"
    )
    assert _message(torch.nn.ReLU()) == "error: from_torch: args must be example arguments for torch.export of a module, not None"
    assert "it is in training mode; programs here are run, not trained" in _message(torch.nn.Dropout(), (x,))
    assert "it is in training mode; programs here are run, not trained" in _message(torch.nn.BatchNorm1d(4), (x,))
    statistics = torch.ops.aten._native_batch_norm_legit_no_training.default
    saved = Of(lambda x: statistics(x, None, None, torch.zeros(4), torch.ones(4), 0.1, 1e-5)[1])
    assert _message(saved, (x,)) == "error: the result 'getitem_1' is a part of a result that no converter computes"


def test_all_operators_without_a_converter_are_named_with_counts_and_lines() -> None:
    class Unknown(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.svd(x)[0] + torch.linalg.svd(x)[1].sum() + torch.fft.fft(x).real.sum()

    line = Unknown.forward.__code__.co_firstlineno + 1
    place = f"test_programs.py:{line}"
    assert _message(Unknown(), (torch.rand(4, 4),)) == (
        f"error: 3 operators have no converter: aten._fft_r2c.default (1 call, {place}), "
        f"aten._linalg_svd.default (2 calls, {place}), aten.view_as_real.default (1 call, {place})"
    )
