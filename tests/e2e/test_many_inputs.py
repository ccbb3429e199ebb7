"""Operators with very many inputs: the generated code for the inputs must not nest."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as relay


@pytest.mark.split(2)
@pytest.mark.extensive(n=(1, 150), operator=("concatenate",))
@pytest.mark.parametrize("operator", ["concatenate", "stack"])
@pytest.mark.parametrize("n", [1, 2, 3, 150])
def test_concatenate_and_stack(operator: str, n: int) -> None:
    params = [relay.var(f"x{i}", shape=(relay.Any(),)) for i in range(n)]
    call = getattr(relay, operator)(relay.Tuple(params), axis=0)
    vm = relay.VirtualMachine(relay.compile(relay.Function(params, call)))
    sizes = [4] * n if operator == "stack" else [i % 3 for i in range(n)]
    arrays = [np.full(size, i, np.float32) for i, size in enumerate(sizes)]
    np.testing.assert_array_equal(vm.run(*arrays).numpy(), getattr(np, operator)(arrays))
