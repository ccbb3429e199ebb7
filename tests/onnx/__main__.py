"""Run ONNX's own suite: ``python -m tests.onnx [--filter X] [--kind node] [--outcome wrong]``, or a variant of it.

``--dims symbolic``: every declared size is a symbol.  ``--initialisers inputs``: stored values come at run time.  ``--sizes``:
free sizes take three other values, and results are compared with ONNX's reference.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter
from collections.abc import Iterator

from relayvm.frontend import OnnxBackend

from .suite.cases import KINDS, OUTCOMES, Case, Outcome, cases, outcome
from .suite.core import is_core
from .suite.exceptions import excuse
from .suite.expectations import graded, why_not_run
from .suite.variants import once, resized, stored_as_inputs, symbolic


def options() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", help="a regular expression in the names")
    parser.add_argument("--kind", default="node", choices=KINDS)
    parser.add_argument("--device", default="CPU")
    parser.add_argument("--outcome", choices=OUTCOMES, help="list cases with this outcome only")
    parser.add_argument("--brief", action="store_true", help="counts only")
    parser.add_argument("--slow", type=int, default=0, help="list the slowest cases")
    parser.add_argument("--opt-level", type=int, default=1)
    parser.add_argument("--dims", choices=("declared", "symbolic"), default="declared")
    parser.add_argument("--initialisers", choices=("constants", "inputs"), default="constants")
    parser.add_argument("--sizes", action="store_true", help="other sizes, against the reference")
    parser.add_argument("--step", type=int, default=1, help="one case in so many")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    return parser.parse_args()


def chosen(args: argparse.Namespace) -> Iterator[Case]:
    """The cases of the options."""
    found = cases(args.kind)
    for case in [c for c in found if re.search(args.filter, c.name)][args.first :: args.step]:
        case = graded(case)
        given = stored_as_inputs(case) if args.initialisers == "inputs" else case
        if given is None:
            continue
        if args.sizes:
            for at in resized(given) if is_core(case) and not why_not_run(case.name) else ():
                if at.failure:
                    print(f"{'reference':12} {at.case.name}: {at.failure.splitlines()[0]}", flush=True)
                else:
                    yield at.case
        else:
            yield symbolic(given) if args.dims == "symbolic" else given


def main() -> None:
    """Run the cases and print counts by outcome, and the cases that did not pass."""
    args = options()
    counts: Counter[str] = Counter()
    times, start = [], time.perf_counter()
    prepare = once(lambda model: OnnxBackend.prepare(model, args.device, opt_level=args.opt_level))
    for case in chosen(args):
        began = time.perf_counter()
        found = outcome(case, prepare)
        why = excuse(case.name, found.kind, found.reason) if args.sizes else ""
        found = Outcome("excused", f"{found.kind} {found.reason}") if why else found
        times.append((time.perf_counter() - began, case.name))
        counts[found.kind] += 1
        if found.kind != "passed" and not args.brief and args.outcome in (None, found.kind):
            print(f"{found.kind:12} {case.name}: {found.reason.splitlines()[0] if found.reason else ''}", flush=True)
    for seconds, name in sorted(times, reverse=True)[: args.slow]:
        print(f"{seconds:8.3f} s  {name}")
    shown = ", ".join(f"{counts[k]} {k}" for k in (*OUTCOMES, "excused") if counts[k] or k in OUTCOMES)
    print(f"{counts.total()} cases in {time.perf_counter() - start:.1f} s: {shown}")


if __name__ == "__main__":
    main()
