"""Run ONNX's own suite: ``python -m tests.onnx [--filter X] [--kind node] [--outcome wrong]``."""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter

from relayvm.frontend import OnnxBackend

from .cases import KINDS, OUTCOMES, cases, outcome


def main() -> None:
    """Run the cases and print counts by outcome, and the cases that did not pass."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", help="a regular expression in the names")
    parser.add_argument("--kind", default="node", choices=KINDS)
    parser.add_argument("--device", default="CPU")
    parser.add_argument("--outcome", choices=OUTCOMES, help="list cases with this outcome only")
    parser.add_argument("--brief", action="store_true", help="counts only")
    parser.add_argument("--slow", type=int, default=0, help="list the slowest cases")
    parser.add_argument("--opt-level", type=int, default=1)
    args = parser.parse_args()
    chosen = [c for c in cases(args.kind) if re.search(args.filter, c.name)]
    counts: Counter[str] = Counter()
    times, start = [], time.perf_counter()
    for case in chosen:
        began = time.perf_counter()
        found = outcome(case, lambda model: OnnxBackend.prepare(model, args.device, opt_level=args.opt_level))
        times.append((time.perf_counter() - began, case.name))
        counts[found.kind] += 1
        if found.kind != "passed" and not args.brief and args.outcome in (None, found.kind):
            print(f"{found.kind:12} {case.name}: {found.reason.splitlines()[0] if found.reason else ''}", flush=True)
    for seconds, name in sorted(times, reverse=True)[: args.slow]:
        print(f"{seconds:8.3f} s  {name}")
    shown = ", ".join(f"{counts[k]} {k}" for k in OUTCOMES)
    print(f"{len(chosen)} cases in {time.perf_counter() - start:.1f} s: {shown}")


if __name__ == "__main__":
    main()
