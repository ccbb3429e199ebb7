"""Run the zoo: ``python -m tests.zoo [--filter X] [--exporter torch]``; a line for each family and exporter."""

from __future__ import annotations

import argparse
import logging
import re
import time
from collections import Counter

from ..campaign.random_programs import kernels_once
from . import detectors, images, texts
from .expectations import expected
from .exporters import EXPORTERS, end_of


def main() -> None:
    """Print the end of each family by each exporter, and counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--filter", default="", help="a regular expression in the names of families")
    parser.add_argument("--exporter", choices=EXPORTERS, action="append")
    args, counts = parser.parse_args(), Counter[tuple[str, str]]()
    logging.disable(logging.CRITICAL)
    families = {**texts.FAMILIES.by_name, **images.FAMILIES.by_name, **detectors.FAMILIES.by_name}
    for name in [n for n in families if re.search(args.filter, n)]:
        for exporter in args.exporter or EXPORTERS:
            start = time.process_time()
            with kernels_once.looked_up_once(kernels_once.hand_written_native):
                end = end_of(families[name], exporter)
            counts[exporter, end.kind] += 1
            known = expected(name, exporter)
            why = f"  ({known.why})" if known is not None and known.is_of(name, exporter, end) else ""
            print(
                f"{name:20} {exporter:7} {time.process_time() - start:6.1f} s  {end.kind:12} {end.reason[:300]}{why}", flush=True
            )
    print(", ".join(f"{exporter}: {number} {kind}" for (exporter, kind), number in sorted(counts.items())))


if __name__ == "__main__":
    main()
