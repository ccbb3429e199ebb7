"""Run `detection_tail.relay` on pictures with 0 to 8400 candidates, and compare each result with plain numpy.

    python examples/detection_tail.py [--device cpu|sim|cuda] [--out FOLDER]

One executable serves every number of candidates.  The inputs with 2000 of them are written to FOLDER, for `relayvm run`,
`profile` and `compare`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from detection_reference import Detections, candidates, detect

import relayvm as relay

HERE = Path(__file__).parent
SIZES = (0, 1, 37, 500, 2000, 8400)
SAVED_SIZE = 2000


def differences(got: Detections, want: Detections) -> list[str]:
    """The differences from numpy's results.  Scores may differ by rounding; boxes and classes must be equal."""
    bad = []
    for name, g, w in zip(("boxes", "scores", "classes"), got, want, strict=True):
        if g.shape != w.shape or g.dtype != w.dtype:
            bad.append(f"{name}: {g.dtype}{list(g.shape)} instead of {w.dtype}{list(w.shape)}")
        elif not (np.allclose(g, w, rtol=0, atol=1e-6) if name == "scores" else np.array_equal(g, w)):
            bad.append(f"{name}: other values")
    return bad


def save_inputs(folder: Path) -> Path:
    """Write one picture's candidates to a file for the command line."""
    folder.mkdir(parents=True, exist_ok=True)
    boxes, logits = candidates(SAVED_SIZE)
    target = folder / f"detection_{SAVED_SIZE}.npz"
    np.savez(target, boxes=boxes, logits=logits)
    return target


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "sim", "cuda"))
    parser.add_argument("--out", type=Path, default=Path("build/examples"), help="folder of the inputs")
    args = parser.parse_args()

    module = relay.parse((HERE / "detection_tail.relay").read_text(), source_name="detection_tail.relay")
    vm = relay.VirtualMachine(relay.compile(module, target=args.device))

    print(f"detection_tail.relay on {args.device}")
    print(f"  {'candidates':>10}  {'detections':>10}  {'best score':>10}  {'copied to host':>14}  as numpy has it")
    failed = False
    for n in SIZES:
        boxes, logits = candidates(n)
        before = vm.counters["dtoh_bytes"]
        result = vm.run(boxes, logits)
        copied = vm.counters["dtoh_bytes"] - before  # for shapes: the results are read only below
        got = tuple(t.numpy() for t in result)
        bad = differences(got, detect(boxes, logits))
        best = f"{got[1].max():.3f}" if got[1].size else "-"
        print(f"  {n:>10}  {len(got[1]):>10}  {best:>10}  {copied:>12} B  {'; '.join(bad) or 'yes'}")
        failed |= bool(bad)
    print(f"  the inputs with {SAVED_SIZE} candidates: {save_inputs(args.out)}")
    if failed:
        print("some results differ from numpy's", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
