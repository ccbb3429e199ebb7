"""Arguments: all that people pass for a tensor, and much that nobody should; each is taken as numpy takes it, or refused."""

from __future__ import annotations

import array
import functools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import relayvm as relay

from .part import Part

DTYPES = ("bool", "int8", "int32", "int64", "uint8", "float16", "float32", "float64", "bfloat16")
SHAPES: tuple[tuple[str, tuple[int, ...]], ...] = (("", ()), ("?", (5,)), ("?, 3", (4, 3)), ("2", (2,)), ("?, ?, ?", (2, 1, 3)))


class Lying(np.ndarray):
    """An object that reports a wrong size and a wrong type."""

    shape, ndim, size, nbytes = (1 << 24,), 1, 1 << 24, 1 << 26  # type: ignore[assignment]
    dtype, strides = np.dtype("float32"), (4,)  # type: ignore[assignment]
    ctypes = flags = __array_interface__ = __array_struct__ = None  # type: ignore[assignment]


class Says:
    """An object with the given attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


class Converts:
    """An object that numpy converts by a function."""

    def __init__(self, convert: Callable[[], Any]) -> None:
        self.convert = convert

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.convert()


class Exports:
    """An object that exports an array by DLPack; a device, or what it gives, may be wrong."""

    def __init__(self, a: np.ndarray, device: Any = None, gives: Any = None) -> None:
        self.a, self.device, self.gives = a, device, gives

    def __dlpack_device__(self) -> Any:
        return self.device or (1, 0)

    def __dlpack__(self, **options: Any) -> Any:
        return self.gives if self.gives is not None else self.a.__dlpack__()


class LongTuple(tuple):  # type: ignore[type-arg]
    """An object that reports no fields."""

    def __len__(self) -> int:
        return 0


def _misaligned(a: np.ndarray) -> np.ndarray:
    raw = np.zeros(a.nbytes + 1, np.uint8)
    out = raw[1:].view(a.dtype).reshape(a.shape)
    out[...] = a
    return out


def _strided(a: np.ndarray) -> np.ndarray:
    return np.repeat(a, 2, axis=0)[::2] if a.ndim else a


def _raises(error: BaseException) -> Callable[[], Any]:
    def convert() -> Any:
        raise error

    return convert


def _endless() -> list[Any]:
    out: list[Any] = []
    out.append(out)
    return out


def _deep(a: np.ndarray) -> Any:
    out: Any = a.tolist()
    for _ in range(2000):
        out = [out]
    return out


def _with_interface(a: np.ndarray, **wrong: Any) -> Says:
    return Says(kept=a, __array_interface__={**a.__array_interface__, **wrong})


#: Forms that hold the elements of an array.  Each is taken with these elements, or refused.
HOLDING: dict[str, Callable[[np.ndarray], Any]] = {
    "itself": lambda a: a,
    "fortran": np.asfortranarray,
    "strided": _strided,
    "backwards": lambda a: np.flip(a.copy())[tuple(slice(None, None, -1) for _ in a.shape)],
    "one element again and again": lambda a: np.broadcast_to(a.reshape(-1)[:1].reshape((1,) * a.ndim), a.shape),
    "misaligned": _misaligned,
    "other byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "subclass": lambda a: a.view(np.recarray) if a.dtype.kind != "V" else a,
    "lying subclass": lambda a: a.view(Lying),
    "masked, nothing masked": lambda a: np.ma.masked_array(a),
    "memoryview": lambda a: memoryview(np.array(a, order="C")) if a.dtype.kind != "V" and a.dtype.name != "bfloat16" else a,
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(a.tolist()) if a.ndim else a.tolist(),
    "numpy scalar": lambda a: a[()] if not a.ndim else a,
    "list of scalars": lambda a: list(a) if a.ndim else a,
    "converts": lambda a: Converts(lambda: a),
    "converts to a subclass": lambda a: Converts(lambda: a.view(Lying)),
    "DLPack": Exports,
    "array interface": _with_interface,
    "object dtype": lambda a: a.astype(object),
    "other dtype": lambda a: a.astype("float64" if a.dtype != np.float64 else "int32"),
    "one axis more": lambda a: a[None],
    "transposed": lambda a: a.T,
    "no elements": lambda a: a[:0] if a.ndim else a,
    "rows twice": lambda a: np.concatenate([a, a]) if a.ndim else a,
}
#: Forms that are rejected, or accepted as numpy converts them.
ODD: dict[str, Callable[[np.ndarray], Any]] = {
    "None": lambda a: None,
    "text": lambda a: "1.5",
    "bytes": lambda a: b"\x00" * 8,
    "dict": lambda a: {0: 1},
    "set": lambda a: {1, 2},
    "generator": lambda a: iter(a.reshape(-1).tolist()),
    "complex": lambda a: 1j,
    "huge": lambda a: 1 << 200,
    "nan": lambda a: float("nan"),
    "list of texts": lambda a: ["x"] * 5,
    "ragged": lambda a: [[1], [1, 2]],
    "list in itself": lambda a: _endless(),
    "deep list": _deep,
    "64 axes": lambda a: np.zeros((1,) * 64, a.dtype),
    "structured": lambda a: np.zeros(5, [("x", "f4"), ("y", "i4")]),
    "dates": lambda a: np.zeros(5, "M8[s]"),
    "array.array": lambda a: array.array("f", [1, 2]),
    "4 TB of one element": lambda a: np.broadcast_to(a.dtype.type(0), (1 << 42,)),
    "huge and empty": lambda a: np.empty((0, 1 << 56, 3), a.dtype),
    "masked": lambda a: np.ma.masked_array(np.ones(5, a.dtype), [True] * 5),
    "pretends to be an array": lambda a: type("P", (), {"__class__": property(lambda s: np.ndarray)})(),
    "pretends to be a result": lambda a: type("P", (), {"__class__": property(lambda s: relay.Tensor)})(),
    "a result nobody finished": lambda a: object.__new__(relay.Tensor),
    "a tuple that says it is empty": lambda a: LongTuple((1, 2)),
    "a class": lambda a: np.ndarray,
    "a dtype that lies": lambda a: Says(dtype=a.dtype, shape=(1 << 30,), ndim=1),
    "converts to None": lambda a: Converts(lambda: None),
    "conversion fails: KeyError": lambda a: Converts(_raises(KeyError("k"))),
    "conversion fails: MemoryError": lambda a: Converts(_raises(MemoryError())),
    "conversion fails: RecursionError": lambda a: Converts(_raises(RecursionError("deep"))),
    "DLPack: no capsule": lambda a: Exports(a, gives=7),
    "DLPack: device of no kind": lambda a: Exports(a, device=(99, 0)),
    "DLPack: device is no pair": lambda a: Exports(a, device=3),
    "DLPack: used up": lambda a: Exports(a, gives=_used_up(a)),
    "interface: no dtype": lambda a: _with_interface(a, typestr="?!"),
    "interface: no data": lambda a: _with_interface(a, data=None),
    "interface: shape is text": lambda a: _with_interface(a, shape="xy"),
    "interface: negative size": lambda a: _with_interface(a, shape=(-1,)),
    "interface is a list": lambda a: Says(__array_interface__=[]),
    "CUDA interface on the host": lambda a: Says(
        __cuda_array_interface__={"shape": (1 << 30,), "typestr": "<f4", "data": (16, False)}
    ),
}  # fmt: skip


def _used_up(a: np.ndarray) -> Any:
    capsule = a.astype(np.float32).__dlpack__()
    np.from_dlpack(Exports(a, gives=capsule))  # type: ignore[arg-type]
    return capsule


@dataclass(frozen=True)
class Case:
    """A parameter, the argument that is passed for it, and the way it gets there."""

    dtype: str
    shape: int
    target: str
    form: str
    held: str
    donate: bool
    in_tuple: bool


@functools.cache
def _machine(dtype: str, shape: int, target: str, in_tuple: bool) -> relay.VirtualMachine:
    sizes = SHAPES[shape][0]
    ty = f"Tensor[({sizes}), {dtype}]" if sizes else dtype
    param, value = (f"%p: (int64, {ty})", "%p.1") if in_tuple else (f"%x: {ty}", "%x")
    return relay.VirtualMachine(relay.compile(f'#[version = "0.0.5"]\ndef @main({param}) {{ copy({value}) }}', target=target))


def _elements(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    name = relay.const(0.0, dtype).data.dtype
    n = int(np.prod(shape))
    return (np.arange(n) % 2 if dtype == "bool" else np.arange(n)).astype(name).reshape(shape)


class Arguments(Part[Case]):
    """Forms of arguments against types of parameters and devices."""

    name, unit, slice_trials, hang_seconds = "arguments", "arguments", 200, 60.0

    def draw(self, seed: int) -> Case:
        """A parameter, and elements of a parameter (often the same) in some form."""
        r = random.Random(seed)
        dtype = r.choice(DTYPES)
        form = r.choice(list(HOLDING) if r.random() < 0.6 else list(ODD))
        held = dtype if r.random() < 0.8 else r.choice(DTYPES)
        return Case(dtype, r.randrange(len(SHAPES)), r.choice(["cpu", "sim"]), form, held, r.random() < 0.1, r.random() < 0.15)

    def check(self, case: Case) -> str | None:
        """The elements, or a diagnostic; and nothing stays behind."""
        vm = _machine(case.dtype, case.shape, case.target, case.in_tuple)
        a = _elements(case.held, SHAPES[case.shape][1])
        value = (HOLDING.get(case.form) or ODD[case.form])(a)
        try:
            wanted = np.asarray(value).copy() if case.form in HOLDING and case.form not in ("lying subclass",) else None
        except Exception:
            wanted = None
        if case.form in ("lying subclass", "converts to a subclass", "DLPack", "array interface", "converts", "memoryview"):
            wanted = a.copy()
        try:
            passed = (7, value) if case.in_tuple else value
            donate = ["p" if case.in_tuple else "x"] if case.donate else []
            result = vm.run(passed, donate=donate).numpy()
        except relay.RelayError as error:
            self.seen["refused"] += 1
            if not str(error):
                return "the message is empty"
            fits = wanted is not None and wanted.dtype == result_dtype(case) and wanted.shape == SHAPES[case.shape][1]
            # numpy knows no buffers of bfloat16, nor DLPack of what is read-only
            exported = case.form in ("DLPack", "array interface", "memoryview") and case.held == "bfloat16"
            if fits and not case.donate and not exported:
                return f"refused, but it fits: {error}"
            return None
        self.seen["taken"] += 1
        if wanted is not None:
            if result.shape != wanted.shape:
                return f"the shape is {result.shape}, not {wanted.shape}"
            if not np.array_equal(result.astype(np.float64), wanted.astype(np.float64)):
                return f"the elements are {result.tolist()}, not {wanted.tolist()}"
        del result
        if case.target == "cpu" and vm.memory["live_bytes"]:
            return f"{vm.memory['live_bytes']} bytes are held"
        return None

    def smaller(self, case: Case) -> Iterator[Case]:
        """Without what may not matter."""
        for change in ({"donate": False}, {"in_tuple": False}, {"target": "cpu"}, {"held": case.dtype}, {"shape": 1}):
            if replace(case, **change) != case:  # type: ignore[arg-type]
                yield replace(case, **change)  # type: ignore[arg-type]

    def write(self, case: Case) -> str:
        """Check it again."""
        return f"from tests.campaign.arguments import PART, Case\n\nassert PART.check({case!r}) is None"


def result_dtype(case: Case) -> np.dtype:
    """The dtype of a case's parameter."""
    return _elements(case.dtype, ()).dtype


PART = Arguments()
