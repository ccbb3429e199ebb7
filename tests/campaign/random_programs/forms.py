"""Control flow in random programs: choices, functions, closures and loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from relayvm.ops.core.tensor_types import numpy_dtype

from ...ops.every_op.drawing import SOME
from .growth import Growth
from .program import Apply, Block, Choice, Loop, Operation, Program, Repeat, Statement, Step, Value

#: The maximum depth of nested blocks.
DEPTH = 3
#: Names of arithmetic with numpy's function, for bodies of loops.
ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": np.add, "subtract": np.subtract, "maximum": np.maximum, "minimum": np.minimum, "multiply": np.multiply,
}  # fmt: skip
_ALONE: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "negative": (np.negative, {}),
    "abs": (np.abs, {}),
    "copy": (lambda x: x, {}),
    "reverse": (lambda x: np.flip(x, 0), {"axis": 0}),
    "strided_slice": (lambda x: x[1:], {"begin": (1,), "end": (1000,), "strides": (1,)}),
    "transpose": (np.transpose, {}),
    "sort": (lambda x: np.sort(x, -1), {"axis": -1}),
}


class Forms(Growth):
    """Grows whole programs."""

    def program(self) -> Program:
        sizes = self.r.choice(("any", "any", "any", "named", "named", "named", "static"))
        # kernels of known sizes are kernels of their own: they get few sizes
        self.some = (2, 3) if sizes == "static" else SOME
        pool = [self._first() for _ in range(self.r.choice((1, 2, 3)))]
        # small ones more often: most mistakes need few statements, and a small program takes a third of the time
        size = self.r.choice((2, 2, 3, 3, 4, 4, 6, 6, 9, 12, 25))
        block = self.block(pool, size, depth=0, results=self.r.choice((1, 2, 3, 4)))
        live = set(block.free()) | block.defined()
        constants = frozenset(n for n in self.constants if n in live)
        return Program(block, self.values, constants, sizes)

    def _first(self) -> str:
        dtype = self.r.choice(self.dtypes)
        shape = tuple(self.r.choice(self.some) for _ in range(self.r.choice((1, 2, 2, 3))))
        rng = np.random.default_rng(self.r.getrandbits(32))
        array = rng.integers(0 if dtype[0] in "ub" else -4, 2 if dtype == "bool" else 5, shape)
        return self.input(np.asarray(array).astype(numpy_dtype(dtype)), constant=0.05)

    def block(self, outer: list[str], size: int, depth: int, results: int) -> Block:
        """Statements that use ``outer``, and results among what they bind."""
        pool, out = list(outer), []
        for _ in range(size):
            form = self.r.random()
            if form < 0.06 and depth < DEPTH:
                self.choice(pool, out, depth)
            elif form < 0.14 and depth < DEPTH:
                self.applied(pool, out, depth)
            elif form < 0.17:
                self.loop(pool, out)
            elif form < 0.19 and depth < DEPTH:
                self.repeat(pool, out, depth)
            elif form < 0.21 and out:
                self._again(pool, out)
            elif form < 0.225:
                self.network(pool, out)
            else:
                self.operation(pool, out)
        own = [n for n in pool if n not in outer] or pool
        used = {n for s in out for n in s.uses()}
        ends = [n for n in own if n not in used]
        # what nobody uses is dead code: most of it is given back
        kept = [own[-1], *self.r.choices(own, k=results - 1)]
        if ends and self.r.random() < 0.7:
            kept = ends[-results:] if depth else ends[-8:]
        if self.r.random() < 0.1:
            kept.append(self.r.choice(pool))
        return Block(tuple(out), tuple(dict.fromkeys(kept)) if depth else tuple(kept))

    def _again(self, pool: list[str], out: list[Statement]) -> None:
        """An operator once more, under another name."""
        s = self.r.choice(out)
        if isinstance(s, Operation):
            targets = tuple(self.bind(self.values[t]) for t in s.targets)
            out.append(replace(s, targets=targets))
            pool += targets

    # ---- networks ----------------------------------------------------------------------------------------------------

    def network(self, pool: list[str], out: list[Statement]) -> None:
        """A product with a constant weight, and what scales and shifts its channels: of numbers whose products are exact."""
        dtype = self.r.choice(("float32", "float32", "float64", "float16"))
        rng = np.random.default_rng(self.r.getrandbits(32))

        def constant(*shape: int) -> str:
            numbers = rng.choice((-2.0, -1.0, 0.0, 0.5, 1.0, 2.0), shape).astype(dtype)
            return self.input(numbers, known=True, constant=0.85)

        channels, deep = self.r.choice(((3, 2), (2, 3), (1, 2))), self.r.random() < 0.5
        shape = (self.r.choice(self.some), channels[0], *((3, 2) if deep else ()))
        x, weight = rng.integers(-2, 3, shape).astype(dtype), constant(channels[1], channels[0], *((1, 1) if deep else ()))
        name, w = self.input(x, known=True, constant=0), self.values[weight].array
        if deep:
            at = self._emit("nn.conv2d", (name, weight), np.einsum("nihw,oi->nohw", x, w[:, :, 0, 0]), pool, out)
        else:
            at = self._emit("nn.dense", (name, weight), x @ w.T, pool, out)
        for _ in range(self.r.choice((1, 2, 3))):
            at = self._per_channel(at, channels[1], deep, constant, pool, out)

    def _per_channel(self, at: str, n: int, deep: bool, constant: Any, pool: list[str], out: list[Statement]) -> str:
        """One step behind a product."""
        y, op = self.values[at].array, self.r.choice(("multiply", "add", "subtract", "nn.bias_add", "negative", "nn.relu"))
        if op == "negative":
            return self._emit(op, (at,), -y, pool, out)
        if op == "nn.relu":
            return self._emit(op, (at,), np.maximum(y, 0), pool, out)
        if op == "nn.bias_add":
            by = constant(n)
            spread = self.values[by].array.reshape((n, 1, 1) if deep else (n,))
            return self._emit(op, (at, by), y + spread, pool, out, axis=1)
        by = constant(*self.r.choice(((n, 1, 1) if deep else (n,), (1,), ())))
        args, arrays = (at, by), (y, self.values[by].array)
        if self.r.random() < 0.4:
            args, arrays = args[::-1], arrays[::-1]
        return self._emit(op, args, ARITHMETIC[op](*arrays), pool, out)

    # ---- if ----------------------------------------------------------------------------------------------------------

    def condition(self, pool: list[str], out: list[Statement]) -> str:
        """A truth value: of the data, of sizes, or given."""
        found = [n for n in pool if self.values[n].kind == ("bool", 0)]
        if found and self.r.random() < 0.5:
            return self.r.choice(found)
        way = self.r.random()
        if way < 0.4:
            sized = [n for n in pool if self.values[n].array.ndim]
            if sized:
                name = self.r.choice(sized)
                size = self.values[name].array.shape[0]
                vector = self._size(size, np.zeros((), "int64"), pool, out)
                assert vector is not None
                number = self._emit("squeeze", (vector,), np.array(size), pool, out, axis=(0,))
                limit = self.r.choice((size, size + 1, 0, 2))
                other = self.input(np.array(limit), known=True, constant=0.9)
                return self._emit("less", (number, other), np.array(size < limit), pool, out)
        if way < 0.7:
            vectors = [n for n in pool if self.values[n].array.dtype == bool and self.values[n].array.ndim]
            if vectors:
                name = self.r.choice(vectors)
                return self._emit("any", (name,), np.array(self.values[name].array.any()), pool, out)
        return self.input(np.array(self.r.random() < 0.5), constant=0.2)

    def choice(self, pool: list[str], out: list[Statement], depth: int) -> None:
        """``if`` with results of the same kinds in both branches."""
        condition = self.condition(pool, out)
        then = self.block(pool, self.r.choice((1, 2, 3)), depth + 1, self.r.choice((1, 1, 2)))
        otherwise = self.block(pool, self.r.choice((0, 1, 2)), depth + 1, 1)
        names = [*pool, *(n for s in otherwise.statements for n in s.targets)]
        results = tuple(self._like(self.values[n], names) for n in then.results)
        otherwise = Block(otherwise.statements, results)
        if self.r.random() < 0.5:
            then, otherwise = otherwise, then
        taken = then if self.values[condition].array else otherwise
        self._bind_block(lambda t: Choice(t, condition, then, otherwise), taken, pool, out)

    def _like(self, value: Value, names: list[str]) -> str:
        """A name of the same dtype and rank."""
        same = [n for n in names if self.values[n].kind == value.kind]
        if same:
            return self.r.choice(same[-4:])
        shape = tuple(max(0, n + self.r.choice((-1, 0, 1))) for n in value.array.shape)
        return self.input(np.zeros(shape, value.array.dtype), constant=0.2)

    def _bind_block(self, make: Callable[..., Statement], block: Block, pool: list[str], out: list[Statement]) -> None:
        values = [self.values[n] for n in block.results]
        targets = tuple(self.bind(Value(v.array, v.error)) for v in values)
        out.append(make(targets))
        pool += targets

    # ---- functions ---------------------------------------------------------------------------------------------------

    def applied(self, pool: list[str], out: list[Statement], depth: int) -> None:
        """A function and its call."""
        block = self.block(pool, self.r.choice((1, 2, 3, 4)), depth + 1, self.r.choice((1, 1, 2)))
        how = self.r.choice(("global", "closure", "handed"))
        captured = () if how == "global" else tuple(n for n in block.free() if self.r.random() < 0.5)
        self._bind_block(lambda t: Apply(t, block, how, captured), block, pool, out)

    # ---- loops -------------------------------------------------------------------------------------------------------

    def loop(self, pool: list[str], out: list[Statement]) -> None:
        """A function that calls itself."""
        fit = [n for n in pool if self.values[n].array.ndim and not self.values[n].error and self._small(n)]
        if not fit:
            return
        carried, times = self.r.choice(fit), self.r.choice((0, 1, 2, 3, 5))
        x = self.values[carried].array
        steps = []
        for _ in range(self.r.choice((1, 2, 3))):
            steps.append(self._step(x, pool))
        with np.errstate(all="ignore"):
            for _ in range(times):
                for step in steps:
                    try:
                        x = self._stepped(step, x)
                    except ValueError:  # a transpose before a concatenation
                        return
                if x.size > 500 or (x.dtype.kind != "b" and x.size and np.abs(x.astype("float64")).max() > 200):
                    return
        counter = self._counter(times, pool, out)
        target = self.bind(Value(np.ascontiguousarray(x) if x.ndim else x))
        out.append(Loop((target,), counter, carried, tuple(steps), self.r.random() < 0.7))
        pool.append(target)

    def repeat(self, pool: list[str], out: list[Statement], depth: int) -> None:
        """A block that is done once or not at all, by a function that calls itself."""
        open_ = [n for n in pool if not self.values[n].known]
        if not open_:
            return
        carried = tuple(dict.fromkeys(self.r.choices(open_, k=self.r.choice((1, 2, 3)))))
        times = self.r.choice((0, 1, 1))
        counter = self._counter(times, pool, out)
        inner = [n for n in pool if n != counter]
        block = self.block(inner, self.r.choice((1, 2, 4)), depth + 1, 1)
        names = [*inner, *(n for s in block.statements for n in s.targets)]
        results = tuple(self._like(self.values[n], names) for n in carried)
        block = Block(block.statements, results)
        values = [self.values[n] for n in (results if times else carried)]
        targets = tuple(self.bind(Value(v.array, v.error)) for v in values)
        out.append(Repeat(targets, counter, carried, block, self.r.random() < 0.6))
        pool += targets

    def _small(self, name: str) -> bool:
        x = self.values[name].array.astype("float64")
        return bool(x.size <= 60 and np.isfinite(x).all() and (not x.size or np.abs(x).max() <= 8))

    def _counter(self, times: int, pool: list[str], out: list[Statement]) -> str:
        dtype = self.r.choice(("int64", "int32"))
        number = np.array(times, dtype)
        found = self.sizes(number, pool, out) if self.r.random() < 0.4 else None
        return found or self.input(number, known=True, constant=0.3)

    def _step(self, x: np.ndarray, pool: list[str]) -> Step:
        form = self.r.random()
        if x.dtype == bool or form < 0.45:
            names = [n for n in _ALONE if x.dtype != bool or n in ("copy", "reverse", "strided_slice", "transpose")]
            name = self.r.choice(names)
            return Step(name, None, _ALONE[name][1])
        if form < 0.6:
            same = [n for n in pool if self.values[n].kind == (x.dtype.name, x.ndim) and self._small(n)]
            same = [n for n in same if self.values[n].array.shape[1:] == x.shape[1:] and not self.values[n].error]
            return Step("concatenate", self.r.choice([*same, "@"]), {"axis": 0}, True)
        name = self.r.choice(list(ARITHMETIC))
        scalars = [n for n in pool if self.values[n].kind == (x.dtype.name, 0) and self._small(n) and not self.values[n].error]
        fresh = self.input(np.array(self.r.choice((0, 1, 2))).astype(x.dtype), known=True) if not scalars else None
        return Step(name, self.r.choice([fresh] if fresh else ["@", *scalars]))

    def _stepped(self, step: Step, x: np.ndarray) -> np.ndarray:
        if step.other is None:
            return _ALONE[step.op][0](x)
        other = x if step.other == "@" else self.values[step.other].array
        if step.joined:
            return np.concatenate([x, other])
        return ARITHMETIC[step.op](x, other).astype(x.dtype)
