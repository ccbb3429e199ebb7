"""Bytes copied to the host by each operator with a data-dependent result shape, for 16 MiB of data.

    python benchmarks/data_dependence.py            # writes docs/data-dependence.md
    python benchmarks/data_dependence.py --check    # exits with 1 if the page is not up to date

It runs on ``sim``, so the numbers are counts: they are the same on every machine.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.ops.core.op import REGISTRY, Op, OpPattern
from relayvm.shape_funcs.relay_flags import RELAY_FLAGS

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "data-dependence.md"
ROWS, COLUMNS = 4096, 1024
#: Bytes of the data: 4 per element.
BYTES = 4 * ROWS * COLUMNS


def data(*shape: int, dtype: str = "float32") -> np.ndarray:
    """16 MiB of data; elements repeat with period 1021."""
    return (np.arange(ROWS * COLUMNS) % 1021).astype(dtype).reshape(shape or (ROWS, COLUMNS))


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scalar(value: float, dtype: str = "int64") -> np.ndarray:
    return np.array(value, dtype)


#: One call per operator: arguments (the data first, if there is any), attributes.
CALLS: dict[str, tuple[tuple[np.ndarray, ...], dict[str, Any]]] = {
    "arange": ((scalar(0, "float32"), scalar(ROWS * COLUMNS, "float32"), scalar(1, "float32")), {}),
    "argwhere": ((data(),), {}),
    "collapse_axes_to": ((data(), ints(1, COLUMNS)), {"axes": (0, 1)}),
    "collapse_sum_to": ((data(), ints(1, COLUMNS)), {}),
    "dyn.broadcast_to": ((data(), ints(ROWS, COLUMNS)), {}),
    "dyn.expand_dims": ((data(), scalar(1)), {}),
    "dyn.full": ((scalar(0, "float32"), ints(ROWS, COLUMNS)), {}),
    "dyn.image.resize2d": ((data(4, 4, 512, 512), ints(256, 256), np.zeros(4, np.float32)), {}),
    "dyn.nn.pad": ((data(), ints(1, 0, 0, 1).reshape(2, 2), scalar(0, "float32")), {}),
    "dyn.nn.upsampling": ((data(4, 4, 512, 512), scalar(1.0, "float32"), scalar(2.0, "float32")), {}),
    "dyn.nn.upsampling3d": ((data(4, 4, 64, 64, 64), *(scalar(1.0, "float32"),) * 3), {}),
    "dyn.one_hot": ((data(ROWS * COLUMNS, dtype="int32"), *(scalar(v, "float32") for v in (1, 0)), scalar(1)), {}),
    "dyn.ones": ((ints(ROWS, COLUMNS),), {}),
    "dyn.reshape": ((data(), ints(COLUMNS, -1)), {}),
    "dyn.sparse_to_dense": (
        (np.arange(ROWS * COLUMNS, dtype=np.int32), data(ROWS * COLUMNS), scalar(0, "float32"), ints(ROWS * COLUMNS)), {},
    ),
    "dyn.squeeze": ((data(1, ROWS, COLUMNS), ints(0)), {}),
    "dyn.strided_slice": ((data(), ints(0, -5), ints(7, COLUMNS), ints(2, 1)), {}),
    "dyn.tile": ((data(), ints(1, 2)), {}),
    "dyn.topk": ((data(), scalar(2)), {}),
    "dyn.zeros": ((ints(ROWS, COLUMNS),), {}),
    "nn.tiled_batch_matmul": ((np.ones((2, 1, COLUMNS), np.float32), data(1, ROWS, COLUMNS), ints(2, 1, 1)), {}),
    "vision.all_class_non_max_suppression": (
        (
            data(1, ROWS * COLUMNS // 4, 4), np.zeros((1, 1, ROWS * COLUMNS // 4), np.float32),
            scalar(2), *(scalar(0.5, "float32"),) * 2,
        ), {},
    ),
    "sparse_fill_empty_rows": (
        (data(ROWS * COLUMNS, 1, dtype="int64"), data(ROWS * COLUMNS), ints(1021), scalar(0, "float32")), {},
    ),
    "unique": ((data(ROWS * COLUMNS),), {}),
}  # fmt: skip


@dataclass(frozen=True)
class Crossed:
    """Bytes copied to the host before a result is read: with our flags, with Relay's last flags, with one flag for all inputs."""

    flagged: int  # bytes of the flagged inputs
    counts: int  # bytes of the sizes that a kernel reports
    ours: int
    relays: int
    per_operator: int


def operators() -> list[Op]:
    """The operators whose result shape depends on data: on values of inputs, or on a size that the kernel reports."""
    callable_ = (op for _, op in sorted(REGISTRY.items()) if op.in_language and op.pattern is not OpPattern.MACHINE)
    return [op for op in callable_ if any(op.data_dependent) or op.shape_func.upper_bound]


def crossed(op: Op, dependence: str) -> int:
    """Bytes copied to the host in one run of a single operator."""
    given, attrs = CALLS[op.name]
    params = [
        relay.var(f"x{k}", [n if flag else relay.Any() for n in x.shape], x.dtype.name)
        for k, (x, flag) in enumerate(zip(given, op.data_dependent, strict=True))
    ]
    function = relay.Function(params, relay.Call(op, params, op.attrs(**attrs)))
    vm = relay.VirtualMachine(relay.compile(function, target="sim", data_dependence=dependence, place="off"))
    vm.run(*given)
    return int(vm.counters["dtoh_bytes"])


def measure() -> dict[str, Crossed]:
    """The bytes of every operator.  Raises KeyError for an operator without an entry in CALLS."""
    found = {}
    for op in operators():
        if op.name not in CALLS:
            raise KeyError(f"{op.name}: add a call with {BYTES >> 20} MiB of data to CALLS in {Path(__file__).name}")
        given = CALLS[op.name][0]
        flagged = sum(x.nbytes for x, flag in zip(given, op.data_dependent, strict=True) if flag)
        counts = 8 if op.shape_func.upper_bound else 0
        found[op.name] = Crossed(flagged, counts, *(crossed(op, mode) for mode in ("input", "relay", "op")))
    return found


def _named(op: Op, flags: tuple[bool, ...]) -> str:
    names = [f"`{name.rstrip('*')}`" for name, flag in zip(op.inputs, flags, strict=True) if flag]
    return ", ".join(names) or "none"


def page(found: dict[str, Crossed]) -> str:
    """The page with the table."""
    rows = []
    for name, c in found.items():
        op = REGISTRY[name]
        relays = tuple(a or b for a, b in zip(op.data_dependent, RELAY_FLAGS.get(name, op.data_dependent), strict=True))
        cells = (f"`{name}`", _named(op, op.data_dependent), f"{c.ours:,}", _named(op, relays), f"{c.relays:,}")
        rows.append(f"| {' | '.join(cells)} | {c.per_operator:,} |")
    saved = sum(c.relays > 2 * c.ours and c.relays >= BYTES for c in found.values())
    return f"""# Data dependence of shapes

A shape function declares per input whether it reads *values* (`@register_shape_func(..., data_dependent=[False, True])`). Only
these inputs are copied to the host; of all other inputs the shape suffices, which the host knows. If only the kernel knows a
size, storage is allocated for the upper bound, and 8 bytes are copied to the host: the true size.

Bytes to the host of one call with {BYTES >> 20} MiB of data ({ROWS * COLUMNS:,} elements) on `sim`, before anyone reads the
result, with nothing placed on the host (`place=off`):

* **ours** (`data_dependence=input`): the flags of the declarations;
* **Relay's last** (`data_dependence=relay`): the last version of Relay had flags per input, but most `dyn.` operators kept
  a single flag for all inputs;
* **one flag** (`data_dependence=op`): one flag per operator, as before per-input flags.

| operator | we read | bytes | Relay read | bytes | one flag |
|---|---|---:|---|---:|---:|
{chr(10).join(rows)}

For {saved} operators Relay's last flags copy the data itself to the host; ours never do. By default (`place=on`) the flagged
inputs of such a call are computed on the host, and nothing is copied: see [copies.md](copies.md).

`python benchmarks/data_dependence.py` writes this page. A custom operator declares its flags when its shape function is
registered: [custom-operators.md](custom-operators.md).
"""


def main() -> int:
    """Write or check the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is not up to date")
    check = parser.parse_args().check
    text = page(measure())
    fresh = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
    if not fresh and not check:
        PAGE.write_text(text, encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)}: {'is fresh' if fresh else 'is not fresh' if check else 'written'}")
    return int(check and not fresh)


if __name__ == "__main__":
    sys.exit(main())
