"""Growth of a random program: statement by statement, each with its value by numpy."""

from __future__ import annotations

import itertools
import random
import warnings
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from relayvm.ops.core.op import REGISTRY, TypeRelError
from relayvm.ops.core.tensor_types import is_float, numpy_dtype

from ...ops.every_op.program import TOLERANCE
from ...ops.every_op.recipe import Call, attrs_of, flags_of, recipe_of, upper_bound
from . import chances
from .pool import MOST_ELEMENTS, PoolDraw
from .program import Operation, Statement, Value

#: Rows of attributes of each operator: each is a kernel more.
VARIANTS = 3
WHOLE = {"float64": 2.0**50, "float32": 2.0**22, "float16": 2.0**22, "bfloat16": 2.0**22}


class Growth:
    """``values``: every name so far.  ``r``: all that is drawn."""

    def __init__(self, r: random.Random) -> None:
        self.r = r
        self.values: dict[str, Value] = {}
        self.constants: set[str] = set()
        self._numbers = itertools.count()
        names, weights = list(chances.DTYPES), list(chances.DTYPES.values())
        self.some: tuple[int, ...] = ()
        self.dtypes = r.choices(names, weights, k=3)

    # ---- names -------------------------------------------------------------------------------------------------------

    def name(self, letter: str = "v") -> str:
        return f"{letter}{next(self._numbers)}"

    def bind(self, value: Value, letter: str = "v") -> str:
        """A new name for a value."""
        name = self.name(letter)
        self.values[name] = value
        return name

    def input(self, array: np.ndarray, *, known: bool = False, constant: float = 0.25) -> str:
        """A new input: a parameter, or a constant with that chance."""
        name = self.bind(Value(np.asarray(array), known=known), "i")
        literal = array.ndim == 0 and array.dtype.kind != "b" and float(array) not in (0.0, 1.0, 2.0, -1.0)
        if self.r.random() < constant and not literal:
            self.constants.add(name)
        return name

    # ---- operators ---------------------------------------------------------------------------------------------------

    def operation(self, pool: list[str], out: list[Statement], names: Iterable[str] = ()) -> list[str]:
        """A call of an operator (of ``names``), bound to new names, which it returns."""
        weights = {n: chances.WEIGHTS[n] for n in names} or chances.WEIGHTS
        for _ in range(60):
            name = self.r.choices(list(weights), list(weights.values()))[0]
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                found = self._tried(name, pool, out)
            if found:
                return found
        return []

    def _tried(self, name: str, pool: list[str], out: list[Statement]) -> list[str]:
        row = random.Random(zlib.crc32(name.encode()) + self.r.randrange(VARIANTS))
        drawn = PoolDraw(
            self.r,
            self.r.choice(self.dtypes),
            {n: self.values[n] for n in pool},
            free=name in chances.ARITHMETIC or name in chances.MOVES,
            special=name in chances.SPECIAL,
            inexact=name in chances.MOVES | chances.CONTINUOUS and name != "reinterpret",
            some=self.some,
            choices=iter(lambda: row.randrange(256), -1),
        )
        try:
            made = recipe_of(name).make(drawn, name)
            dtypes = REGISTRY[name].dtype(made.dtypes(), attrs_of(REGISTRY[name], made))
            wanted = made.wanted
        except (TypeRelError, ValueError, OverflowError, IndexError, TypeError):
            return []  # of this shape or dtype the recipe has no call
        if isinstance(wanted, str) or (not drawn.drawn and self.r.random() < 0.9):
            return []
        return self._bound(name, made, dtypes, drawn, pool, out)

    def _bound(self, name: str, made: Call, dtypes: Any, drawn: PoolDraw, pool: list[str], out: list[Statement]) -> list[str]:
        assert not isinstance(made.wanted, str)
        op = REGISTRY[name]
        listed = dtypes if isinstance(dtypes, tuple) else (dtypes,)
        if any(w.size > MOST_ELEMENTS for w in made.wanted) or len(listed) != len(made.wanted):
            return []
        given = [drawn.drawn.get(id(x)) for x in made.flat]
        operands = [self.values[g] for g in given if g]
        results = []
        for w, dtype in zip(made.wanted, listed, strict=True):
            value = result(name, w, dtype, operands, made)
            if value is None:
                return []
            results.append(value)
        args, known = [], not upper_bound(op)
        for k, (x, flag) in enumerate(zip(made.flat, flags_of(op, made), strict=True)):
            fixed = flag or any(i == k for i, _ in made.fixed)
            args.append(self._argument(x, given[k], fixed, pool, out))
            known = known and self.values[args[-1]].known
        known = (known and not any(op.data_dependent)) or name == "shape_of"
        targets = [self.bind(Value(v.array, v.error, known)) for v in results]
        flat = iter(args)
        shaped = tuple(tuple(next(flat) for _ in i) if isinstance(i, tuple) else next(flat) for i in made.inputs)
        out.append(Operation(tuple(targets), name, shaped, made.attrs, isinstance(dtypes, tuple)))
        pool += targets
        return targets

    def _argument(self, x: np.ndarray, drawn: str | None, fixed: bool, pool: list[str], out: list[Statement]) -> str:
        """The name that an operator gets for an array that its recipe drew."""
        if drawn is not None and (not fixed or self.values[drawn].known or not x.ndim):
            return drawn
        sizes = x.dtype.name in ("int64", "int32") and x.ndim <= 1 and 0 < x.size <= 6 and x.min() >= 0
        if sizes and (found := self.sizes(x, pool, out)) is not None:
            return found
        name = self.input(x, known=fixed, constant=0.2)
        if not fixed:
            pool.append(name)
        return name

    # ---- sizes as values ---------------------------------------------------------------------------------------------

    def sizes(self, x: np.ndarray, pool: list[str], out: list[Statement]) -> str | None:
        """A vector or number made of sizes of values, equal to ``x``; None for another one."""
        equal = [n for n in pool if self.values[n].known and not self.values[n].error and _same(self.values[n].array, x)]
        if equal and self.r.random() < 0.8:
            return self.r.choice(equal)
        if self.r.random() < 0.15:
            return None
        whole = [n for n in pool if x.ndim and np.array_equal(self.values[n].array.shape, x)]
        if whole and self.r.random() < 0.7:
            return self._emit("shape_of", (self.r.choice(whole),), x, pool, out, dtype=x.dtype.name)
        parts = []
        for number in x.reshape(-1):
            part = self._size(int(number), x, pool, out)
            if part is None:
                return None
            parts.append(part)
        if not x.ndim:
            return self._emit("squeeze", (parts[0],), x, pool, out, axis=(0,))
        if len(parts) == 1:
            return parts[0]
        return self._emit("concatenate", (tuple(parts),), x, pool, out, axis=0)

    def _size(self, number: int, like: np.ndarray, pool: list[str], out: list[Statement]) -> str | None:
        """A vector of one number: an element of a value, a size of one, or given."""
        if self.r.random() < 0.3 and (found := self._element(number, like, pool, out)) is not None:
            return found
        positions = [(n, k) for n in pool for k, size in enumerate(self.values[n].array.shape) if size == number]
        dtype = like.dtype.name
        if not positions:
            return self.input(np.array([number], dtype), known=True, constant=0.8)
        name, axis = self.r.choice(positions)
        shape = np.array(self.values[name].array.shape, dtype)
        vector = self._emit("shape_of", (name,), shape, pool, out, dtype=dtype)
        if self.r.random() < 0.5:
            at = self.input(np.array([axis], "int64"), known=True, constant=0.9)
            return self._emit("take", (vector, at), shape[[axis]], pool, out, axis=0, mode="clip")
        last = self.r.choice([axis - len(shape), axis])
        end = axis + 1 if last >= 0 or axis + 1 == len(shape) else last + 1
        return self._emit("strided_slice", (vector,), shape[[axis]], pool, out, begin=(last,), end=(end,), strides=(1,))

    def _element(self, number: int, like: np.ndarray, pool: list[str], out: list[Statement]) -> str | None:
        """A vector of one number that is computed with the program's data."""
        found = [n for n in pool if self.values[n].array.dtype == like.dtype and (self.values[n].array == number).any()]
        if not found:
            return None
        name = self.r.choice(found)
        flat = self.values[name].array.reshape(-1)
        at = int(np.argmax(flat == number))
        if self.values[name].array.ndim != 1:
            name = self._emit("reshape", (name,), flat, pool, out, newshape=(-1,))
            self.values[name] = Value(flat)
        index = self.input(np.array([at]), known=True, constant=0.9)
        return self._emit("take", (name, index), flat[[at]], pool, out, axis=0, mode="clip")

    def _emit(self, op: str, args: tuple[Any, ...], array: Any, pool: list[str], out: list[Statement], **attrs: Any) -> str:
        name = self.bind(Value(np.asarray(array), known=True))
        out.append(Operation((name,), op, args, attrs))
        pool.append(name)
        return name


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and bool((a == b).all())


def result(name: str, wanted: np.ndarray, dtype: str, operands: list[Value], made: Call) -> Value | None:
    """The value of a result; None where numpy's is no oracle."""
    error = max((v.error for v in operands), default=0.0)
    if not is_float(dtype):
        if wanted.dtype.kind == "f" and not np.isfinite(wanted).all():
            return None
        if wanted.dtype.kind == "f" and wanted.size and np.abs(wanted).max() > 100 and name not in chances.MOVES:
            return None  # numpy's own way over float64
        return Value(np.asarray(wanted.astype(dtype)))
    exactly = np.asarray(wanted).astype("float64")
    array = np.asarray(wanted).astype(numpy_dtype(dtype))
    rounded = array.astype("float64")
    finite = np.isfinite(exactly)
    if not np.isfinite(rounded[finite]).all():
        return None
    exact = name in chances.EXACT and np.array_equal(exactly, rounded, equal_nan=True) and _whole(name, dtype, made)
    if exact and not error:
        return Value(array)
    if not finite.all() and name not in chances.MOVES:
        return None
    largest = max((float(np.abs(v.array.astype("float64")).max()) for v in operands if v.array.size), default=1.0)
    if name == "multiply":
        error *= 2 * (1 + largest)
    elif name not in chances.MOVES:
        error = sum(v.error for v in operands) * (2 + largest if name in chances.CONTINUOUS else 1)
    own = 0.0 if exact else 2 * TOLERANCE[dtype] * made.tolerance
    return Value(array, error + own) if error + own < 0.1 else None


def _whole(name: str, dtype: str, made: Call) -> bool:
    """Whether sums on the way are exact in any order."""
    if name not in chances.SUMS:
        return True
    bound = 1.0
    for x in made.flat:
        if x.dtype.kind != "b" and x.size:
            bound *= max(1.0, float(np.abs(x.astype("float64")).max()))
    return bound * max((x.size for x in made.flat), default=1) < WHOLE[dtype]
