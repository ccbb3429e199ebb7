"""The cases of ONNX's own suite, and the outcome of one on a machine."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import math
import os
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.loader import DATA_DIR, load_model_tests

#: The kinds of cases: of single operators, of a few, of two exporters, and whole networks.
KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator", "light")
#: The tolerances of ONNX's runner.
RTOL, ATOL = 1e-3, 1e-7
#: The outcomes of a case: right, different values, operators without a converter, a model that is refused, or another error.
OUTCOMES = ("passed", "wrong", "unsupported", "refused", "error")


@dataclass(frozen=True)
class Case:
    """A model with inputs and expected outputs."""

    name: str
    model: Any
    data_sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float


@dataclass(frozen=True)
class Outcome:
    """The end of a case: one of OUTCOMES, and why."""

    kind: str
    reason: str = ""


@functools.cache
def node_cases() -> tuple[Case, ...]:
    """The cases of single operators, by name.

    The suite computes them by numpy, which takes many seconds: they are kept in the cache folder, for versions of the suite, of
    numpy and of this file.
    """
    folder = Path(os.environ.get("RELAYVM_CACHE_DIR") or tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    this = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    path = folder / f"onnx-cases-{onnx.__version__}-{np.__version__}-{this}.pickle"
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers wait for the file
        if not path.exists():
            part = path.with_suffix(".part")
            part.write_bytes(pickle.dumps([*_computed_cases()]))
            part.replace(path)
    stored = pickle.loads(path.read_bytes())
    return tuple(Case(name, onnx.ModelProto.FromString(model), *more) for name, model, *more in stored)


def _computed_cases() -> Iterator[Any]:
    """The fields of each case, in the order of ``Case``."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes infinities
        found = load_model_tests(kind="node")
    return ((c.name, c.model.SerializeToString(), [_arrays(s) for s in c.data_sets], c.rtol, c.atol) for c in found)


def _arrays(values: Any) -> Any:
    """The values with stored tensors as arrays."""
    if isinstance(values, (list, tuple)):
        return tuple(map(_arrays, values))
    return onnx.numpy_helper.to_array(values) if isinstance(values, onnx.TensorProto) else values


def cases(kind: str) -> tuple[Case, ...]:
    """The cases of one of KINDS."""
    return node_cases() if kind == "node" else file_cases(kind)


@functools.cache
def file_cases(kind: str) -> tuple[Case, ...]:
    """The cases of a kind that are stored in files: ``simple``, ``pytorch-converted``, ``pytorch-operator``, ``light``."""
    if kind == "light":
        return tuple(map(_light, sorted(Path(DATA_DIR, kind).glob("*.onnx"))))
    return tuple(_from_folder(c) for c in load_model_tests(kind=kind))


def _light(path: Path) -> Case:
    """A network without stored weights; ONNX's runner gives it numbers from 0 to 1 in order."""
    model = onnx.load(path)
    stored = {t.name for t in model.graph.initializer}
    shapes = [[d.dim_value or 1 for d in i.type.tensor_type.shape.dim] for i in model.graph.input if i.name not in stored]
    inputs = [(np.arange(n).reshape(s) / n).astype(np.float32) for s in shapes for n in [math.prod(s)]]
    outputs = [
        onnx.numpy_helper.to_array(onnx.TensorProto.FromString(path.with_name(f"{path.stem}_output_{k}.pb").read_bytes()))
        for k in range(len(model.graph.output))
    ]
    return Case(f"test_{path.stem.removeprefix('light_')}", model, [(inputs, outputs)], RTOL, ATOL)


def _from_folder(case: Any) -> Case:
    folder = Path(case.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets = [(_values(data, "input", model.graph.input), _values(data, "output", model.graph.output))
            for data in sorted(folder.glob("test_data_set_*"))]  # fmt: skip
    return Case(case.name, model, sets, case.rtol, case.atol)


def _values(folder: Path, kind: str, infos: Any) -> list[Any]:
    values = []
    for number, info in enumerate(infos):
        path = folder / f"{kind}_{number}.pb"
        if not path.exists():
            break
        tensor = onnx.TensorProto.FromString(path.read_bytes())
        values.append(onnx.numpy_helper.to_array(tensor))
        assert info.type.HasField("tensor_type"), path
    return values


def difference(have: Sequence[Any], want: Sequence[Any], rtol: float, atol: float) -> str:
    """The first difference of the outputs, as ONNX's runner compares them: dtypes and shapes exactly; "" if there is none."""
    if len(have) != len(want):
        return f"{len(have)} outputs instead of {len(want)}"
    for k, (a, b) in enumerate(zip(have, want, strict=True)):
        if isinstance(b, (list, tuple)):
            found = difference(a, b, rtol, atol) if isinstance(a, (list, tuple)) else f"{type(a).__name__} instead of a list"
            if found:
                return f"output {k}: {found}"
            continue
        if b is None or a is None:
            if a is not b:
                return f"output {k} is {a} instead of {b}"
            continue
        a, b = np.asarray(a), np.asarray(b)
        if (a.dtype, a.shape) != (b.dtype, b.shape):
            return f"output {k} is {a.dtype}{a.shape} instead of {b.dtype}{b.shape}"
        wide = b.dtype.name == "bfloat16"
        tolerance = max(rtol, 2.0**-6) if wide else rtol
        left, right = (x.astype(np.float32) if wide else x for x in (a, b))
        with np.errstate(all="ignore"):
            close = np.isclose(left, right, rtol=tolerance, atol=atol, equal_nan=True)
        if not close.all():
            at = tuple(int(i) for i in np.argwhere(~close)[0])
            return f"output {k} at {at}: {left[at]} instead of {right[at]} ({int((~close).sum())} of {close.size})"
    return ""


def outcome(case: Case, prepare: Callable[[Any], Any]) -> Outcome:
    """The outcome of a case with models prepared by ``prepare``."""
    import relayvm as relay

    sizes = ""
    try:
        prepared = prepare(case.model)
        for inputs, want in case.data_sets:
            sizes = f"{[np.shape(a) for a in inputs]}: " if len(case.data_sets) > 1 else ""
            have = prepared.run(list(inputs))
            found = difference(have, want, case.rtol, case.atol)
            if found:
                return Outcome("wrong", sizes + found)
    except relay.RelayError as error:
        kinds = {"model/operator": "unsupported", "model/format": "refused"}
        kind = kinds.get(error.code, "refused" if error.code.startswith("model/") else "error")
        return Outcome(kind, f"{sizes}{error.code}: {error.diagnostics[0].message}")
    except Exception as error:  # the runner lists what is wrong with all cases
        return Outcome("error", f"{type(error).__name__}: {error}")
    return Outcome("passed")
