"""Narrow number formats beside float32 and onnxruntime on the same models.

    python benchmarks/formats [--only SUBJECT ...] [--threads 1] [--rounds 9] [--quick] [--name PART] [--record FOLDER]

products  MatMulInteger and DynamicQuantizeMatMul of 1 to 384 rows by weights of some sizes.
layers    convolutions of ResNet and MobileNet as QLinearConv.
dynamic   an encoder of texts whose weights ``onnxruntime.quantization.quantize_dynamic`` makes bytes.
static    the encoder, networks for images and a detector, by ``quantize_static``: QDQ and QOperator, a scale for each channel.
bits      MatMulNBits of 4 bits in blocks of 16, 32 and 128, with and without zero points, at the accuracy levels 0 and 4;
          ``read`` is the time over that of reading as many bytes from beyond the caches of a core, ``multiplied`` at level 0
          that over as many multiply-adds of float32 in registers: both are bounds.
halves    networks for images, an encoder, a step of a decoder in float16 and bfloat16.
operators every operator of the registry that takes floats, in float16 and bfloat16; only if it is named, and never recorded.

Each line has the CPU time of relayvm in microseconds, of onnxruntime on the same model, and of relayvm on the model in float32.
OpenVINO is timed, too, where it is installed and takes the model.  With several threads a time is that of a clock.  All are timed
in turn; a time is the median of the rounds, with the least and the largest, and a ratio the median of those of the rounds.

The results of relayvm and onnxruntime are compared first: ``differs`` is the largest difference, in parts of the largest
magnitude, of float32 where onnxruntime does not run a model.  On processors without VNNI, sums of onnxruntime's default session
saturate at 16 bits, and its results are others; there onnxruntime is timed with exact sums (``exact_weights.py``), and
``saturated`` is the ratio to the default session, with that session's error.

A ratio above its goal has a mark.  ``--quick``: few and short samples.  ``--record`` writes the figures and the state of the
machine to a file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .case import Case

#: The contestants.
OURS, PEER, FLOATS = "relayvm", "onnxruntime", "float32"
#: A contestant that need not be installed.
ANOTHER = "openvino"
#: Beside them, numpy's maximum of as many bytes as a weight has.
READ = "read"
#: Multiply-adds of float32 in registers, as many as a product has.
MULTIPLIED = "multiplied"
#: The default session of onnxruntime, where sums of its products saturate.
SATURATED = "saturated"
#: The shortest sample in seconds, and the rounds: whole, and quick.
SAMPLE_S, QUICK_S, ROUNDS, QUICK_ROUNDS = 0.02, 0.004, 9, 5
#: The subject that is measured only by name.
OPERATORS = "operators"


def main() -> int:
    """The exit code."""
    given = _arguments()
    for variable in ("RELAYVM_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(given.threads)  # read when the libraries load
    from .contest import machine, measured

    lines, missed = [], 0
    print(f"{'':64}{OURS + ' us':>34}{PEER + ' us':>34}{FLOATS + ' us':>12}{'of peer':>9}{'of own':>8}  differs", flush=True)
    for subject, case in _cases(given.only):
        if given.name and given.name not in case.name:
            continue
        rounds = given.rounds or (QUICK_ROUNDS if given.quick else ROUNDS)
        line = {"subject": subject, **measured(case, rounds, given.threads, QUICK_S if given.quick else SAMPLE_S)}
        lines.append(line)
        over = {name for name, goal in ((PEER, case.goal), (FLOATS, case.own_goal)) if line["of"].get(name, 0) > goal}
        missed += bool(over)
        print(_text(line, over), flush=True)
    for ratio in (PEER, FLOATS):
        found = [line["of"][ratio] for line in lines if ratio in line["of"]]
        if found:
            print(f"geometric mean, of {ratio}: {statistics.geometric_mean(found):.2f}; the largest: {max(found):.2f}")
    print(f"above a goal: {missed} of {len(lines)}")
    if given.record:
        _record(given, [line for line in lines if line["subject"] != OPERATORS], machine())
    return 0


def _subjects() -> dict[str, tuple[Callable[[Sequence[int]], Iterator[Case]], Sequence[int]]]:
    """The subjects by name, with the rows of their cases."""
    from . import convolution_layers, few_bits, half_networks, half_operators, networks, products

    return {
        "products": (products.products, products.ROWS),
        "layers": (convolution_layers.layers, ()),
        "dynamic": (networks.dynamic, networks.WORDS),
        "static": (networks.static, networks.WORDS),
        "bits": (few_bits.few_bits, few_bits.ROWS),
        "halves": (half_networks.networks, ()),
        OPERATORS: (half_operators.operators, ()),
    }


def _cases(only: Sequence[str]) -> Iterator[tuple[str, Case]]:
    """The cases, each with its subject."""
    subjects = _subjects()
    for name in only or (name for name in subjects if name != OPERATORS):
        make, rows = subjects[name]
        for case in make(rows):
            yield name, case


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="subjects")
    parser.add_argument("--name", default="", help="only cases whose name has this part")
    parser.add_argument("--threads", type=int, default=1, help="threads of each runtime")
    parser.add_argument("--rounds", type=int, help=f"rounds instead of {ROUNDS}")
    parser.add_argument("--quick", action="store_true", help="few and short samples")
    parser.add_argument("--record", metavar="FOLDER", help="write <date>-formats-cpu-<processor>.json there")
    return parser.parse_args()


def _text(line: dict[str, Any], over: set[str]) -> str:
    spans = [f"{t['median']:.1f} [{t['min']:.1f}..{t['max']:.1f}]" if t else "-" for t in map(line["us"].get, (OURS, PEER))]
    ratios = [f"{line['of'][n]:.2f}{'!' * (n in over)}" if n in line["of"] else "-" for n in (PEER, FLOATS)]
    bounds = "".join(f"  {name} {line['of'][name]:.2f}" for name in (READ, MULTIPLIED, ANOTHER) if name in line["of"])
    wrong = f"  {SATURATED} {line['of'][SATURATED]:.2f}, {line[SATURATED]:.1e}" if SATURATED in line else ""
    real = f"{line['us'][FLOATS]['median']:.1f}"
    row = f"{line['case']:64}{spans[0]:>34}{spans[1]:>34}{real:>12}{ratios[0]:>9}{ratios[1]:>8}  {line['differs']:.1e}"
    return row + bounds + wrong


def _record(given: argparse.Namespace, lines: list[dict[str, Any]], machine: dict[str, Any]) -> None:
    from onnx_models import machine_name

    date = f"{datetime.now(UTC):%Y-%m-%d}"
    data = {"date": date, "machine": machine, "threads": given.threads, "rows": lines}
    Path(given.record).mkdir(parents=True, exist_ok=True)
    name = f"{date}-formats-cpu-{machine_name(machine)}{'' if given.threads == 1 else f'-{given.threads}-threads'}.json"
    Path(given.record, name).write_text(json.dumps(data, indent=1) + "\n")
