"""Custom operators: one declared as an expression, which fuses, and one with a shape function, flags and a kernel.

    python examples/custom_op.py [--device sim]

Both are called from a text and from Python, for sizes that are known only at run time.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import relayvm as relay
from relayvm.custom_op import apply, check, le

# ---- an expression: fused with its neighbours, on every device ----------------------------------------------------------


@dataclass(frozen=True)
class HardSwishAttrs:
    """``reach``: the operator is 0 below ``-reach`` and x above ``reach``."""

    reach: float = 3.0


def hard_swish(x, reach):  # type: ignore[no-untyped-def]
    """`x * clip(x + reach, 0, 2 * reach) / (2 * reach)`."""
    inside = apply("minimum", apply("maximum", x + reach, 0.0), 2 * reach)
    return apply("divide", x * inside, 2 * reach)


# ---- a kernel: any loop over arrays, and whatever else numba compiles ------------------------------------------------------


def head_sums(data, count, out):  # type: ignore[no-untyped-def]
    """The sums of the rows up to each of the first `count`: `my.head_sums([[1, 2], [3, 4], [5, 6]], 2) = [[1, 2], [4, 6]]`."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = out[i - 1, j] + data[i, j] if i else data[i, j]
    return 0


def head_shape(inputs, attrs):  # type: ignore[no-untyped-def]
    """Reads the value of the count, but only the shape of the data."""
    data, count = inputs
    check(le(count.values[0], data.shape[0]), "the count is {}, but there are only {} rows", count.values[0], data.shape[0])
    return count.values[0], data.shape[1]


#: The work of one thread of a GPU: optional, like the GPU.
ON_GPUS = """
    auto total = data[at % data_size1];
    for (int64 i = 1; i <= at / data_size1; ++i) total += data[i * data_size1 + at % data_size1];
    out[at] = total;"""


def register() -> None:
    """Declare both operators."""
    relay.register_op("my.hard_swish", ["x"], element=hard_swish, attrs=HardSwishAttrs, dtypes=("float32", "float64"))
    relay.register_shape_func("my.head_sums", [False, True], head_shape)
    relay.register_op("my.head_sums", ["data", "count"], kernel=head_sums, dtype=lambda dtypes, attrs: dtypes[0], cuda=ON_GPUS)


# ---- use -------------------------------------------------------------------------------------------------------------------

TEXT = """#[version = "0.0.5"]
def @main(%x: Tensor[(?n, ?m), float32], %count: int64) {
  my.head_sums(my.hard_swish(%x * 2f, reach=2f) + 1f, %count)
}
"""


def built() -> relay.Function:
    """The same program, built in Python."""
    x, count = relay.var("x", (relay.Any(), relay.Any())), relay.var("count", (), "int64")
    return relay.Function([x, count], relay.my.head_sums(relay.my.hard_swish(x * 2.0, reach=2.0) + 1.0, count))


def expected(x: np.ndarray, count: int) -> np.ndarray:
    """The results of both operators by numpy."""
    y = 2 * x
    return np.cumsum(y * np.clip(y + 2, 0, 4) / 4 + 1, axis=0)[:count]


def main() -> int:
    """Run both programs at some sizes, and compare with numpy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", help="cpu, sim or cuda")
    device = parser.parse_args().device
    register()
    for program in (TEXT, built()):
        vm = relay.VirtualMachine(relay.compile(program, target=device))
        for rows, columns, count in ((5, 3, 4), (1000, 70, 1000), (0, 2, 0)):
            x = np.random.default_rng(rows).normal(size=(rows, columns)).astype(np.float32)
            result = vm.run(x, np.array(count)).numpy()
            np.testing.assert_allclose(result, expected(x, count), rtol=1e-4, atol=1e-3)
            print(f"({rows}, {columns}), the first {count}: {result.shape} on {device}, as numpy says")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
