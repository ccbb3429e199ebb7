"""Copies between host and device of a program with shape arithmetic, by configuration.

    python benchmarks/copies.py            # writes examples/exporter_shapes.relay and docs/copies.md
    python benchmarks/copies.py --check    # exits with 1 if either is not up to date

The program has the form in which other frameworks export a network with unknown sizes: before each dyn operator
the new shape is concatenated from elements of another shape.  It runs on ``sim``, so the numbers are counts: they are the
same on every machine.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import relayvm as relay

ROOT = Path(__file__).resolve().parents[1]
PROGRAM, PAGE = ROOT / "examples" / "exporter_shapes.relay", ROOT / "docs" / "copies.md"
LAYERS = 12
#: The rows of the table: name and configuration.
CONFIGURATIONS = {
    "op": {"data_dependence": "op", "place": "off"},
    "relay": {"data_dependence": "relay", "place": "off"},
    "input": {"data_dependence": "input", "place": "off"},
    "input + place": {"data_dependence": "input", "place": "on"},
}
#: The sizes of the run: batch, tokens, channels.
BATCH, TOKENS, CHANNELS = 4, 96, 64

HEADER = f"""#[version = "0.0.5"]

// {LAYERS} layers as an exporter writes them: five times a layer a shape is taken apart, computed with, and put together again
// for the next operator.  Written by benchmarks/copies.py.
"""
LAYER = """
  // layer {i}
  let %s{i} = shape_of(%x{i}, dtype="int64");
  let %b{i} = expand_dims(take(%s{i}, 0i64), axis=0);
  let %t{i} = expand_dims(take(%s{i}, 1i64), axis=0);
  let %c{i} = expand_dims(take(%s{i}, 2i64), axis=0);
  let %bias{i} = dyn.broadcast_to(mean(%x{i}, axis=[1], keepdims=True), concatenate((%b{i}, %t{i}, %c{i}), axis=0));
  let %one{i} = expand_dims(1i64, axis=0);
  let %place{i} = dyn.tile(multiply(%place, {scale}f), concatenate((%b{i}, minimum(%t{i}, %one{i}), %one{i}), axis=0));
  let %mask{i} = dyn.full(0.5f, concatenate((%b{i}, %t{i}, %one{i}), axis=0), dtype="float32");
  let %sum{i} = multiply(add(add(%x{i}, %bias{i}), %place{i}), %mask{i});
  let %none{i} = concatenate((subtract(%b{i}, %b{i}), subtract(%t{i}, %t{i}), subtract(%c{i}, %c{i})), axis=0);
  let %all{i} = concatenate((%b{i}, %t{i}, %c{i}), axis=0);
  let %ones{i} = add(%none{i}, 1i64);
  let %cut{i} = dyn.strided_slice(%sum{i}, %none{i}, %all{i}, %ones{i});
  let %turned{i} = concatenate((%t{i}, divide(multiply(%b{i}, %t{i}), maximum(%t{i}, %one{i})), %c{i}), axis=0);
  let %x{next} = tanh(dyn.reshape(%cut{i}, %turned{i}));"""


def program(layers: int = LAYERS) -> str:
    """The text of the program."""
    body = [LAYER.format(i=i, next=i + 1, scale=i + 1.5) for i in range(layers)]
    head = f"""
def @main(
  %x0: Tensor[(?n, {TOKENS}, {CHANNELS}), float32],
  %place: Tensor[(1, 1, {CHANNELS}), float32]
) {{"""
    return "".join([HEADER, head, *body, f"\n\n  %x{layers}\n}}\n"])


@dataclass(frozen=True)
class Crossed:
    """Copies and waits of one run."""

    dtoh_copies: int
    dtoh_bytes: int
    htod_copies: int
    htod_bytes: int
    syncs: int


def measure(layers: int = LAYERS, batch: int = BATCH) -> dict[str, Crossed]:
    """Counts of one run in each configuration (not of the first run, which copies the constants to the device).

    Raises AssertionError if two configurations give different results.
    """
    rng = np.random.default_rng(0)
    shapes = ((batch, TOKENS, CHANNELS), (1, 1, CHANNELS))
    inputs = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    found, results = {}, []
    for name, config in CONFIGURATIONS.items():
        vm = relay.VirtualMachine(relay.compile(program(layers), target="sim", **config))
        vm.run(*inputs)
        vm.reset_counters()
        result = vm.run(*inputs)
        found[name] = Crossed(**{k: vm.counters[k] for k in Crossed.__dataclass_fields__})
        results.append(result.numpy())
    for r in results[1:]:
        np.testing.assert_array_equal(r, results[0])
    return found


def page(found: dict[str, Crossed]) -> str:
    """The page with the table."""
    rows = [
        f"| {name} | {c.dtoh_copies:,} | {c.dtoh_bytes:,} | {c.syncs:,} | {c.htod_copies:,} | {c.htod_bytes:,} |"
        for name, c in found.items()
    ]
    return f"""# Copies between host and device

Shapes are computed on the host, tensors are stored on the device. A dependence between the two causes a copy, and a copy
*to the host* waits for all queued work of the device. Exported networks are full of such copies:
[examples/exporter_shapes.relay](../examples/exporter_shapes.relay) has {LAYERS} layers with five chains
`shape_of → take → arithmetic → concatenate → dyn.*` each (`dyn.broadcast_to`, `dyn.tile`, `dyn.full`, `dyn.strided_slice`,
`dyn.reshape`). One run on `sim` with an input of ({BATCH}, {TOKENS}, {CHANNELS}):

| configuration | copies to the host | bytes | waits | copies to the device | bytes |
|---|---:|---:|---:|---:|---:|
{chr(10).join(rows)}

* **op** (`data_dependence=op,place=off`): one flag per operator, for all its inputs. Whole tensors are copied to the host.
* **relay** (`data_dependence=relay,place=off`): the flags of Relay's last version. Some operators had one flag per input,
  most `dyn.*` operators one flag for all inputs.
* **input** (`data_dependence=input,place=off`): each shape function declares the *inputs* whose values it reads; only these are
  copied.
* **input + place** (the default): values that end in a shape are computed on the host from the start.

`python benchmarks/copies.py` writes this page. `relayvm explain examples/exporter_shapes.relay` lists every remaining copy.

## Device placement

`place=on` decides the placement, host or device, of every *small* operator call (inputs and results of at most 4 KiB, sizes
known), of the values of `if`s, of parameters and of results of functions. Everything else is on the device.
The placement is a minimum cut of the data flow of the whole program: it minimises the number of copies to the host, then the
bytes copied, then the number of copies. A copy in a loop weighs more than any copy before the loop, an
unconditional copy more than any copy in a branch. Work is placed on the host only if the host needs its results.

* A parameter that decides shapes or conditions is on the host, and is copied to the device only if the device reads it too.
* The state of a loop (its counter, its limit) stays on the host between iterations, through the function's parameters.
* In a chain that begins on the device, the smallest value of the chain is copied.

The program can override the placement: `on_device(%x, device="cpu")` computes `%x` on the host,
`device_copy(%x, src="sim", dst="cpu")` copies.
"""


def main() -> int:
    """Write or check the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is not up to date")
    check = parser.parse_args().check
    stale = False
    for path, text in ((PROGRAM, program()), (PAGE, page(measure()))):
        fresh = path.exists() and path.read_text(encoding="utf-8") == text
        stale |= not fresh
        if not fresh and not check:
            path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {'is fresh' if fresh else 'is not fresh' if check else 'written'}")
    return int(stale and check)


if __name__ == "__main__":
    sys.exit(main())
