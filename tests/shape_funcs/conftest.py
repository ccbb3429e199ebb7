"""Fixture: shape functions over constant sizes, and over symbolic sizes through the shape program."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from relayvm import shape_funcs  # noqa: F401  (registers)
from relayvm.shape_funcs.symbolic.dim import Dim, dim, sym
from relayvm.shape_funcs.symbolic.int_operations import SCALAR
from relayvm.shape_funcs.symbolic.program import ARITY, DATA, OPERATIONS, SIZE, ShapeProgram, assemble, constant_dims
from relayvm.shape_funcs.symbolic.registry import SHAPE_FUNCS, Operand, ShapeError, tracing


class ShapesOf:
    """``ShapesOf(name, inputs, **attrs)``: numpy arrays in, shapes out.  A list of arrays is a tuple input."""

    def __init__(self, name: str, inputs: list[Any], **attrs: Any) -> None:
        self.func, self.inputs, self.attrs = SHAPE_FUNCS[name], inputs, SimpleNamespace(**attrs)
        self.flat = [x for i in inputs for x in (i if isinstance(i, list) else [i])]

    def known(self) -> list[tuple[int, ...]]:
        """The shapes with every size and value constant."""
        program = self._program(lambda *_: False, shared=False)
        assert not program.checks, "all is known: nothing is left to check"
        return program.run(self.flat)

    def unknown(self, choose: Any = lambda *_: True, shared: bool = False, fixed: tuple[tuple[int, int], ...] = ()) -> Any:
        """The shapes with the sizes and values selected by ``choose()`` symbolic; with ``shared``, equal sizes share a symbol.
        ``fixed``: pairs (input, axis) of sizes that stay constant."""
        program = self._program(choose, shared, fixed)
        program.verify(len(self.flat))
        assert ShapeProgram.from_json(program.to_json()) == program
        wanted = interpret(program.words(), self.flat)
        try:
            shapes = program.run(self.flat)
        except ShapeError:
            assert wanted is None, "the encoded program accepts what the program refuses"
            raise
        assert wanted == shapes
        return shapes

    def _program(self, choose: Any, shared: bool, fixed: tuple[tuple[int, int], ...] = ()) -> Any:
        loads: dict[Dim, Any] = {}
        position = iter(range(len(self.flat)))

        def operand(array: np.ndarray, flagged: bool) -> Operand:
            p = next(position)
            sizes, values = [], None
            for axis, size in enumerate(array.shape):
                name = sym(f"s{size}" if shared else f"n{p}_{axis}")
                sizes.append(name if not flagged and (p, axis) not in fixed and choose() else dim(size))
                loads.setdefault(name, (p, SIZE, axis))
            if flagged:
                names = [sym(f"v{p}_{k}", is_size=False) for k in range(array.size)]
                loads.update({v: (p, DATA, k) for k, v in enumerate(names)})
                values = tuple(v if choose() else c for v, c in zip(names, constant_dims(array), strict=True))
            return Operand(tuple(sizes), str(array.dtype), values)

        flags = self.func.data_dependent.of_inputs(len(self.inputs))
        operands = tuple(
            tuple(operand(x, f) for x in i) if isinstance(i, list) else operand(i, f)
            for i, f in zip(self.inputs, flags, strict=True)
        )
        with tracing() as trace:
            out = self.func.body(operands, self.attrs)
        outputs = [tuple(map(dim, s)) for s in (out if isinstance(out, list) else [out])]
        program = assemble(outputs, trace.checks, loads)
        return program


def interpret(words: list[int], inputs: list[np.ndarray]) -> list[tuple[int, ...]] | None:
    """Evaluate an encoded program according to the documented encoding; None if a check or an overflow rejects the inputs."""
    at = iter(words)
    n_loads, n_rows, n_checks, n_outputs = (next(at) for _ in range(4))
    slots = []
    for _ in range(n_loads):
        i, kind, index = next(at), next(at), next(at)
        slots.append(inputs[i].shape[index] if kind == SIZE else constant_dims(inputs[i])[index].args[0])
    for _ in range(n_rows):
        op, *operands = next(at), next(at), next(at), next(at)
        name = OPERATIONS[op]
        slots.append(operands[0] if name == "const" else SCALAR[name](*(slots[s] for s in operands[: ARITY[op]])))
        if not -(2**63) <= slots[-1] < 2**63:
            return None
    checks = [slots[next(at)] for _ in range(n_checks)]
    shapes = [tuple(slots[next(at)] for _ in range(next(at))) for _ in range(n_outputs)]
    assert next(at, None) is None, "words are left over"
    return shapes if all(checks) and all(d >= 0 for s in shapes for d in s) else None


@pytest.fixture
def shapes_of() -> type[ShapesOf]:
    return ShapesOf
