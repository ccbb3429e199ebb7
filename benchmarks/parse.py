"""Time of parsing, printing, comparing and typing large and deep programs at 1, 2 and 4 times a size.

    python benchmarks/parse.py [--json] [--only NAME ...] [--megabytes 20]

text        lets of one operator each, up to --megabytes of text
lets        up to 10,000 lets
calls       up to 10,000 nested calls
parentheses, blocks    up to 100,000 deep
functions   up to 10,000 definitions
literal     a tensor literal of up to 200,000 elements
open        up to 100,000 parentheses that are never closed: the time of the error message

``slope`` is the exponent of the time over the size, from 2 to 4 times; 1 is linear.  Times are processor seconds, so
that other programs on the machine change them less.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from typing import Any

import relayvm as relay

HEADER = '#[version = "0.0.5"]\n'
FACTORS = (1, 2, 4)
#: Seconds below which a time says nothing about its growth.
SHORT = 0.02


def main_of(body: str) -> str:
    return f"{HEADER}def @main(%x0: float32) {{\n{body}\n}}\n"


def lets(n: int) -> str:
    return main_of("".join(f"  let %x{k + 1} = exp(%x{k});\n" for k in range(n)) + f"  %x{n}")


def functions(n: int) -> str:
    calls = "".join(f"def @f{k}(%x: float32) -> float32 {{ exp(%x) }}\n" for k in range(n))
    return HEADER + calls + f"def @main(%x: float32) {{ @f{n - 1}(%x) }}\n"


def literal(n: int) -> str:
    rows = ", ".join(["[1f, 2.5f, -3f, 4f]"] * (n // 4))
    return main_of(f"  [{rows}]")


#: Per program its text of a size, and the size at 1.
PROGRAMS: dict[str, tuple[Callable[[int], str], int]] = {
    "lets": (lets, 2_500),
    "calls": (lambda n: main_of("exp(" * n + "%x0" + ")" * n), 2_500),
    "parentheses": (lambda n: main_of("(" * n + "%x0" + ")" * n), 25_000),
    "blocks": (lambda n: main_of("{" * n + "%x0" + "}" * n), 25_000),
    "functions": (functions, 2_500),
    "literal": (literal, 50_000),
    "open": (lambda n: main_of("(" * n), 25_000),
}


def seconds(run: Callable[[], Any], times: int = 2) -> tuple[float, Any]:
    """The least processor time of several runs, and the last result."""
    least, result = math.inf, None
    for _ in range(times):
        result = None  # freed before the clock starts
        start = time.process_time()
        result = run()
        least = min(least, time.process_time() - start)
    return least, result


def parsed(text: str) -> relay.IRModule | None:
    """The module, or None for a text with a mistake."""
    try:
        return relay.parse(text)
    except relay.ParseError as error:
        assert len(str(error)) < 20_000
        return None


def stages(text: str, stages: tuple[str, ...], times: int) -> dict[str, float]:
    """The time of each stage."""
    found: dict[str, float] = {}
    found["parse"], mod = seconds(lambda: parsed(text), times)
    if mod is None or stages == ("parse",):
        return found
    found["print"], again = seconds(lambda: relay.astext(mod), times)
    other = parsed(again)
    found["equal"], same = seconds(lambda: relay.structural_equal(mod, other), times)
    assert same, "the printed text is another program"
    found["types"], _ = seconds(lambda: relay.transform.InferType()(mod), times)
    return found


def row(name: str, texts: list[str], which: tuple[str, ...] = (), times: int = 2) -> list[dict[str, Any]]:
    """A row of each stage: size in megabytes, seconds, slope."""
    measured = [stages(text, which, times) for text in texts]
    out = []
    for stage in measured[0]:
        spent = [m[stage] for m in measured]
        slope = math.log2(max(spent[2], 1e-6) / max(spent[1], 1e-6)) / math.log2(len(texts[2]) / len(texts[1]))
        out.append({"program": name, "stage": stage, "mb": [len(t) / 1e6 for t in texts], "seconds": spent, "slope": slope})
    return out


def show(rows: list[dict[str, Any]]) -> None:
    for r in rows:
        spent = "".join(f"{s:9.3f}" for s in r["seconds"])
        slope = f"slope {r['slope']:.2f}" if r["seconds"][-1] > SHORT else "too short for a slope"
        print(f"{r['program']:12} {r['stage']:6} {r['mb'][-1]:7.2f} MB {spent}   {slope}", flush=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--json", action="store_true", help="print JSON")
    options.add_argument("--only", nargs="*", default=["text", *PROGRAMS], choices=["text", *PROGRAMS])
    options.add_argument("--megabytes", type=float, default=20.0, help="the size of the largest text")
    given = options.parse_args()
    relay.parse(lets(1))  # reads the grammar
    rows: list[dict[str, Any]] = []
    for name in given.only:
        if name == "text":
            lines = int(given.megabytes * 1e6 / len(lets(100_000)) * 100_000)
            found = row(name, [lets(lines * k // 4) for k in FACTORS], ("parse",), times=1)
        else:
            make, size = PROGRAMS[name]
            found = row(name, [make(size * k) for k in FACTORS])
        rows += found
        if not given.json:
            show(found)
    if given.json:
        print(json.dumps(rows))


if __name__ == "__main__":
    main()
