"""Everything that needs a GPU, in one command: tests, and figures beside their goals.

    make gpu                                        # or: python benchmarks/gpu [--out FOLDER] [--only PART ...]

Each part runs in its own process with its own time limit.  A part that fails is recorded with its error, and the other parts
run.  Writes <date>-<GPU>.json and .md.  Exit code 1: a part failed (a test among them).  Exit code 3: no part failed, and a part
was unfinished at its time limit.  A missed goal is no failure; the table shows it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from .document import SCHEMA, markdown, summary
from .facts import after, before
from .figures import DONE, FAILED, NOT_RUN, UNFINISHED, NotRun, Recorder, Unfinished, brief
from .parts import PARTS, WHOLE_S, Part, seconds_of
from .processes import Ended, run
from .scale import FULL, TINY

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
#: The exit code if no part failed and a part was unfinished.
_UNFINISHED = 3
#: A part that has less than this left is not begun.
_LEAST_S = 5.0


def main(argv: list[str] | None = None) -> int:
    """The exit code."""
    args = _arguments(argv)
    if args.part or args.start is not None:
        return _in_this_process(args)
    # one cache for all parts, which is not the user's
    os.environ.setdefault("RELAYVM_CACHE_DIR", str(ROOT / ".cache" / "relayvm"))
    out = args.out or RESULTS
    out.mkdir(parents=True, exist_ok=True)
    data = _run(args)
    name = f"{data['date'][:10]}-{re.sub(r'[^a-z0-9]+', '-', data['card'].lower()).strip('-')}"
    (out / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    (out / f"{name}.md").write_text(markdown(data), encoding="utf-8")
    print(f"{summary(data)}\n{out / name}.md", flush=True)
    found = {p["status"] for p in data["parts"]}
    return 1 if FAILED in found else _UNFINISHED if UNFINISHED in found else 0


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python benchmarks/gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [p.name for p in PARTS]
    parser.add_argument("--out", type=Path, help="folder of the files (default: benchmarks/results)")
    parser.add_argument("--only", nargs="+", choices=names, metavar="PART", help=f"some parts: {', '.join(names)}")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes and few samples, to check that all parts run")
    parser.add_argument("--emulated", action="store_true", help="on the emulated GPU of the tests; needs --out and g++")
    parser.add_argument("--commit", help="the measured commit, if git is missing")
    parser.add_argument("--seconds", type=float, default=WHOLE_S, help="seconds for all parts together (default: %(default)g)")
    for hidden, kind in (("--part", str), ("--record", Path), ("--start", int)):
        parser.add_argument(hidden, type=kind, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.emulated and not args.out and not args.part and args.start is None:
        parser.error("--emulated needs --out: what it finds is no result")
    return args


def _run(args: argparse.Namespace) -> dict[str, Any]:
    """All parts, one after another; the data of the JSON file."""
    began, date = time.monotonic(), datetime.datetime.now().astimezone()
    facts = before(args.commit)
    parts = []
    with tempfile.TemporaryDirectory(prefix="relayvm-gpu-") as folder:
        chosen = [p for p in PARTS if not args.only or p.name in args.only]
        for i, part in enumerate(chosen):
            left = args.seconds - (time.monotonic() - began)
            found = _one(part, args, Path(folder), seconds_of(part, chosen[i + 1 :], left, args.seconds))
            print(f"{part.name:<11} {found['status']:<10} {found['seconds']:6.1f} s  {found['why']}"[:160], flush=True)
            parts.append(found)
    doctor = {k: v for p in parts if p["name"] == "doctor" for k, v in p["facts"].items()}
    return {
        "schema": SCHEMA,
        "date": date.isoformat(timespec="seconds"),
        "emulated": args.emulated,
        "tiny": args.tiny,
        "card": next((p["card"] for p in parts if p["card"]), "no GPU"),
        "cuda": doctor.get("driver_cuda", "unknown"),
        "nvrtc": doctor.get("nvrtc", "unknown"),
        "seconds": round(time.monotonic() - began, 1),
        "seconds_given": args.seconds,
        "facts": {**facts, "after": after()},
        "parts": parts,
    }


def _one(part: Part, args: argparse.Namespace, folder: Path, seconds: float) -> dict[str, Any]:
    """The record of one part, in a process of its own."""
    path = folder / f"{part.name}.json"
    if seconds < _LEAST_S:
        record = Recorder(path, part.name)
        record.end(UNFINISHED, f"not begun: the {args.seconds:g} s for everything were over")
        return {**record.data, "title": part.title}
    flags = [f"--{name}" for name in ("emulated", "tiny") if getattr(args, name)]
    here = str(Path(__file__).resolve().parent)
    command = [sys.executable, here, "--part", part.name, "--record", str(path), "--seconds", str(seconds), *flags]
    ended = run(command, seconds, folder / f"{part.name}.log")
    return {**_record(part, path, ended, seconds), "title": part.title}


def _record(part: Part, path: Path, ended: Ended, seconds: float) -> dict[str, Any]:
    """The record that the part wrote, with the outcome of its process if the two differ."""
    if not path.exists():
        Recorder(path, part.name)
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if data["status"] != UNFINISHED or data["why"]:  # it came to its end
        return data
    data["seconds"] = max(data["seconds"], seconds if ended.code is None else 0)
    if ended.code is None:
        data["why"] = f"not done after {seconds:.0f} s"
    else:
        data["status"] = FAILED
        data["why"] = f"its process ended with {ended.code}"
    data["texts"].append({"title": "the end of what it wrote", "text": ended.output[-4000:]})
    return data


def _in_this_process(args: argparse.Namespace) -> int:
    """A part; or what the part ``cold`` starts."""
    from relayvm.vm.devices.cuda.driver_api.device import device

    from . import emulated

    if args.start is not None:
        from .measures import cold

        if args.emulated:
            emulated.plug_in()
        cold.start(args.start)
        return 0
    record = Recorder(args.record, args.part)
    try:
        if args.emulated:
            emulated.plug_in()
        part = next(p for p in PARTS if p.name == args.part)
        record.gpu(device(0).name)  # without a GPU no part gets further than this, and this says why
        part.measure(record, TINY if args.tiny else FULL, args.seconds)
        record.end(DONE)
    except NotRun as why:
        record.end(NOT_RUN, str(why))
    except Unfinished as why:
        record.end(UNFINISHED, str(why))
    except BaseException as error:
        import traceback

        record.text("the error", traceback.format_exc())
        record.end(FAILED, brief(error))
    return 0
