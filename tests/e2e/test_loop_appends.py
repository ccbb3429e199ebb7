"""A row written into a tensor that a loop hands on: the result is that of numpy, and a step does not copy the tensor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import relayvm as relay

HEADER = '#[version = "0.0.5"]\n'
#: Step %i writes %row + %i to the row %at + %i, modulo the number of rows.
LOOP = """def @main(%rows: int64, %width: int64, %at: int64, %steps: int64, %row: Tensor[(?w), float32]) {
  let %write = fn (%cache: Tensor[(?, ?), float32], %i: int64) -> Tensor[(?, ?), float32] {
    if (%i >= %steps) { %cache } else {
      let %place = floor_mod(%at + %i, %rows);
      let %new = add(%row, cast(%i, dtype="float32"));
      let %places = arange(%place, %place + 1i64, 1i64, dtype="int64");
      %write(scatter_nd(%cache, expand_dims(%places, axis=0), expand_dims(%new, axis=0)), %i + 1i64)
    }
  };
  %write(dyn.zeros(stack((%rows, %width)), dtype="float32"), 0i64)
}
"""


@pytest.fixture(scope="module", params=["cpu", "sim"])
def device(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def machine(device: str) -> relay.VirtualMachine:
    return relay.VirtualMachine(relay.compile(HEADER + LOOP, device))


def run(vm: relay.VirtualMachine, rows: int, width: int, at: int, steps: int) -> tuple[np.ndarray, int]:
    """The tensor after the loop, and the bytes that the run allocated."""
    before = vm.counters["alloc_bytes"]
    scalars = [np.array(x, np.int64) for x in (rows, width, at, steps)]
    result = vm.run(*scalars, np.arange(width, dtype="f")).numpy()
    return result, vm.counters["alloc_bytes"] - before


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 7), st.sampled_from([0, 1, 2, 5, 33]), st.integers(0, 9), st.integers(0, 12))
def test_the_rows_are_those_of_numpy(machine: relay.VirtualMachine, rows: int, width: int, at: int, steps: int) -> None:
    wanted = np.zeros((rows, width), "f")
    for i in range(steps):
        wanted[(at + i) % rows] = np.arange(width, dtype="f") + np.float32(i)
    assert np.array_equal(run(machine, rows, width, at, steps)[0], wanted)


@settings(max_examples=20, deadline=None)
@given(st.integers(64, 300), st.integers(16, 80), st.integers(1, 20))
def test_a_step_allocates_less_than_the_tensor(machine: relay.VirtualMachine, rows: int, width: int, steps: int) -> None:
    (_, none), (_, some) = run(machine, rows, width, 0, 0), run(machine, rows, width, 0, steps)
    assert some - none < steps * rows * width * 4


@pytest.mark.parametrize("mode", ["update", "add"])
def test_a_profile_counts_the_row_that_is_written_and_not_the_tensor(device: str, mode: str) -> None:
    text = LOOP.replace("expand_dims(%new, axis=0))", f'expand_dims(%new, axis=0), mode="{mode}")')
    vm = relay.VirtualMachine(relay.compile(HEADER + text, device))
    rows, width, steps = 300, 40, 10
    scalars = [np.array(x, np.int64) for x in (rows, width, 0, steps)]
    profile = vm.profile(*scalars, np.arange(width, dtype="f"), repeat=1, warmup=0)
    (row,) = (r for r in profile.activities if r.name == "scatter_nd")
    whole = 2 * 4 * rows * width if mode == "add" else 0
    assert (row.calls, row.nbytes) == (steps, steps * (whole + 4 * width + 8))
