"""Run `mask_rcnn_tail.relay` on pictures of several sizes, with 0 to 3000 anchors, and compare each result with plain numpy.

    python examples/mask_rcnn_tail.py [--device cpu|sim|cuda] [--out FOLDER]

One executable serves all pictures.  The inputs of one picture are written to FOLDER, for `relayvm run`, `profile` and `compare`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from mask_rcnn_reference import Detections, Inputs, detect, image, weights

import relayvm as relay

HERE = Path(__file__).parent
#: Anchors, then rows and columns of the feature map.
SIZES = ((0, 16, 20), (1, 16, 20), (50, 2, 3), (300, 24, 12), (3000, 16, 20))
SAVED_SIZE = SIZES[-1]
#: If the coverage is this near to a half, the mask may have either value.
UNDECIDED = 1e-3


def inputs(n: int, height: int, width: int) -> Inputs:
    """All inputs of the program by name."""
    return {**image(n, height, width), **weights()}


def differences(got: tuple[np.ndarray, ...], want: Detections) -> list[str]:
    """The differences from numpy's results.  Numbers may differ by rounding; classes and counts must be equal."""
    boxes, scores, classes, masks = got
    shapes = [("boxes", boxes, want.boxes), ("scores", scores, want.scores), ("masks", masks, want.coverage)]
    bad = [f"{name}: {list(g.shape)} instead of {list(w.shape)}" for name, g, w in shapes if g.shape != w.shape]
    if bad:
        return bad
    if not np.allclose(boxes, want.boxes, rtol=0, atol=1e-3):
        bad.append("boxes: other values")
    if not np.allclose(scores, want.scores, rtol=0, atol=1e-5):
        bad.append("scores: other values")
    if not np.array_equal(classes, want.classes):
        bad.append("classes: other values")
    if ((masks != (want.coverage > 0.5)) & (np.abs(want.coverage - 0.5) > UNDECIDED)).any():
        bad.append("masks: other values")
    return bad


def save_inputs(folder: Path) -> Path:
    """Write one picture's inputs to a file for the command line."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"mask_rcnn_{SAVED_SIZE[0]}.npz"
    np.savez(target, **inputs(*SAVED_SIZE))
    return target


def run_one(vm: Any, size: tuple[int, int, int]) -> tuple[str, bool]:
    """A line of the table, and whether the result equals numpy's."""
    given = inputs(*size)
    before = vm.counters["dtoh_bytes"]
    result = vm.run(**given)
    copied = vm.counters["dtoh_bytes"] - before  # for shapes: the results are read only below
    got, want = tuple(t.numpy() for t in result), detect(given)
    bad = differences(got, want)
    covered = f"{got[3].mean():.1%}" if got[3].size else "-"
    n, height, width = size
    line = f"{n:>7}  {height:>4} x {width:<4} {want.proposals:>9}  {len(got[1]):>10}  {covered:>7}  {copied:>12} B"
    return f"  {line}  {'; '.join(bad) or 'yes'}", not bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "sim", "cuda"))
    parser.add_argument("--out", type=Path, default=Path("build/examples"), help="folder of the inputs")
    args = parser.parse_args()

    module = relay.parse((HERE / "mask_rcnn_tail.relay").read_text(), source_name="mask_rcnn_tail.relay")
    vm = relay.VirtualMachine(relay.compile(module, target=args.device))

    print(f"mask_rcnn_tail.relay on {args.device}")
    heads = f"{'anchors':>7}  {'map':^11} {'proposals':>9}  {'detections':>10}  {'covered':>7}  {'copied to host':>14}"
    print(f"  {heads}  as numpy has it")
    fine = True
    for size in SIZES:
        line, as_numpy = run_one(vm, size)
        print(line)
        fine &= as_numpy
    print(f"  the inputs with {SAVED_SIZE[0]} anchors: {save_inputs(args.out)}")
    if not fine:
        print("some results differ from numpy's", file=sys.stderr)
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
