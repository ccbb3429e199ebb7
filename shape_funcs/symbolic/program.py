"""Shape programs: shape functions assembled into straight-line int64 arithmetic.

A program reads sizes and data elements of its inputs (*loads*), computes *rows* from earlier slots, tests its *checks*, and
returns the shapes listed in its *outputs*.  The native loop evaluates ``words()``.  ``run`` is the reference
implementation; it raises a message for each error status of the native evaluator.

All arithmetic is on int64.  A sum, product or quotient that overflows is an error (``SIZE_OVERFLOW`` natively), never a
wrapped size.  An output size below 0 is an error, too.  Every row is computed, including the untaken operand of a ``where``.
"""

from __future__ import annotations

import string
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...declarations.frozen_dataclass import frozen
from .dim import ANY_DIM, INT, MAX_RANK, POLY, RESULT, UNKNOWNS, Dim, Shape, dim, postorder
from .int_operations import ADD, ARANGE, EQ, INT64_MAX, INT64_MIN, LT, MUL, SCALAR, WHERE
from .registry import Check, ShapeError

#: Kinds of loads: the size of axis ``index``, or element ``index`` of the data (row-major).
SIZE, DATA = 0, 1
#: Operations by opcode.  The operand of ``const`` is a literal; all other operands are slots.
OPERATIONS = ("const", *SCALAR)
OPCODES = {name: number for number, name in enumerate(OPERATIONS)}
#: Number of operands of each opcode.
ARITY = tuple(3 if name in (WHERE, ARANGE) else 2 if name in SCALAR else 0 for name in OPERATIONS)

Load = tuple[int, int, int]  # input, kind, index
Row = tuple[int, int, int, int]  # opcode, a, b, c


@frozen
class ShapeProgram:
    """A program over *slots*: one per load, then one per row.

    ``loads``: ``(input, kind, index)`` with kind SIZE or DATA.  Data is converted to int64; a float becomes the bit
    pattern of its float64 value.  ``rows``: ``(opcode, a, b, c)``.  For ``const``, ``a`` is the value; otherwise the operands
    are earlier slots (``where``: condition, then, else).  ``checks``: ``(slot, message, operand slots)``; the value of the slot
    must not be 0.  ``outputs``: the slots of each shape.
    """

    loads: tuple[Load, ...]
    rows: tuple[Row, ...]
    checks: tuple[tuple[int, str, tuple[int, ...]], ...]
    outputs: tuple[tuple[int, ...], ...]

    def words(self) -> list[int]:
        """The native encoding: ``[n_loads, n_rows, n_checks, n_outputs, (input, kind, index)*, (op, a, b, c)*, (check slot)*,
        (ndim, slots...)*]``.  Rows used only by messages come last and are omitted."""
        wanted = [slot for slot, _, _ in self.checks] + [slot for out in self.outputs for slot in out]
        n_rows = max(0, max(wanted, default=-1) + 1 - len(self.loads))
        out = [len(self.loads), n_rows, len(self.checks), len(self.outputs)]
        for group in (self.loads, self.rows[:n_rows]):
            for item in group:
                out.extend(item)
        out += [slot for slot, _, _ in self.checks]
        for slots in self.outputs:
            out += [len(slots), *slots]
        return out

    def run(self, inputs: Sequence[Any]) -> list[tuple[int, ...]]:
        """The output shapes for ``inputs``: numpy arrays, or any object with ``shape`` if no data of it is read.

        Raises ShapeError with the message of the first check that fails, or for a size that is negative or too large.
        """
        slots = [_load(inputs[i], kind, index) for i, kind, index in self.loads]
        for op, a, b, c in self.rows:
            operands = (a, b, c)[: ARITY[op]]
            value = SCALAR[OPERATIONS[op]](*(slots[s] for s in operands)) if op else a
            if not INT64_MIN <= value <= INT64_MAX:
                raise ShapeError(f"a size is too large: {_show(op, [slots[s] for s in operands])}")
            slots.append(value)
        for slot, message, shown in self.checks:
            if slots[slot] == 0:
                raise ShapeError(message.format(*(slots[s] for s in shown)))
        shapes = [tuple(slots[s] for s in out) for out in self.outputs]
        for shape in shapes:
            if any(size < 0 for size in shape):
                raise ShapeError(f"a size is negative: the shape would be {shape}")
        return shapes

    def describe_failure(self, inputs: Sequence[Any]) -> str | None:
        """The message of the first check that fails for ``inputs``; None if all hold."""
        try:
            self.run(inputs)
        except ShapeError as error:
            return error.message
        return None

    def to_json(self) -> dict[str, Any]:
        """The program as plain data; ``from_json`` restores an equal program."""
        return {
            "loads": [list(x) for x in self.loads],
            "rows": [list(x) for x in self.rows],
            "checks": [[slot, message, list(shown)] for slot, message, shown in self.checks],
            "outputs": [list(x) for x in self.outputs],
        }

    @staticmethod
    def from_json(data: Any) -> ShapeProgram:
        """The program in ``data``.  Raises ValueError if the structure is wrong; ``verify`` checks the values."""
        try:
            return ShapeProgram(
                tuple(_ints(x, 3) for x in data["loads"]),  # type: ignore[misc]
                tuple(_ints(x, 4) for x in data["rows"]),  # type: ignore[misc]
                tuple((_ints([slot], 1)[0], _string(message), _ints(shown)) for slot, message, shown in data["checks"]),
                tuple(_ints(x) for x in data["outputs"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a shape program: {error}") from None

    def verify(self, n_inputs: int) -> None:
        """Raise ValueError for an input, kind, axis, opcode or slot out of range, or a message whose ``{}`` do not match its
        operands.  Rows may read only earlier slots.  The axes and elements read are not checked against tensors."""

        def need(ok: object, what: str) -> None:
            if not ok:
                raise ValueError(f"shape program: {what}")

        for k, (i, kind, index) in enumerate(self.loads):
            need(0 <= i < n_inputs, f"load {k} reads input {i} of {n_inputs}")
            need(kind in (SIZE, DATA), f"load {k} has kind {kind}")
            need(0 <= index < (MAX_RANK if kind == SIZE else 2**31), f"load {k} reads index {index}")
        n = len(self.loads)
        for k, (op, *operands) in enumerate(self.rows):
            need(0 <= op < len(OPERATIONS), f"row {k} has opcode {op}")
            need(all(0 <= s < n + k for s in operands[: ARITY[op]]), f"row {k} reads a slot that does not come before it")
            need(all(INT64_MIN <= s <= INT64_MAX for s in operands), f"row {k} does not fit int64")
        n += len(self.rows)
        for k, (slot, message, shown) in enumerate(self.checks):
            need(all(0 <= s < n for s in (slot, *shown)), f"check {k} reads a slot that does not exist")
            need(_holes(message) == len(shown), f"check {k} has {len(shown)} operands for the message {message!r}")
        for k, slots in enumerate(self.outputs):
            need(len(slots) <= MAX_RANK, f"output {k} has {len(slots)} dimensions; at most {MAX_RANK} are possible")
            need(all(0 <= s < n for s in slots), f"output {k} reads a slot that does not exist")

    def __str__(self) -> str:
        lines = [f"s{k} = {'size' if kind == SIZE else 'data'}(input {i}, {x})" for k, (i, kind, x) in enumerate(self.loads)]
        for k, (op, *operands) in enumerate(self.rows, len(self.loads)):
            lines.append(f"s{k} = {_show(op, [f's{s}' for s in operands[: ARITY[op]]]) if op else operands[0]}")
        lines += [f"check s{slot}: {message.format(*(f's{s}' for s in shown))}" for slot, message, shown in self.checks]
        lines += [f"shape ({', '.join(f's{s}' for s in slots)})" for slots in self.outputs]
        return "\n".join(lines)


# ---- assembly --------------------------------------------------------------------------------------------------


def assemble(outputs: Iterable[Shape], checks: Iterable[Check], loads: Mapping[Dim, Load]) -> ShapeProgram:
    """The program that computes ``outputs`` and ``checks``; ``loads`` maps each unknown to its load.

    Common subexpressions are computed once; unused loads are omitted.  A ``result`` size is replaced by its bound.
    Raises ShapeError for a known size that does not fit int64.
    """
    outputs, checks = list(outputs), list(checks)
    wanted = [d for out in outputs for d in out] + [c.condition for c in checks]
    order = postorder([*wanted, *(d for c in checks for d in c.operands)], stop=loads)
    builder = _Builder(sorted((d for d in order if d in loads), key=loads.__getitem__), loads)
    for d in order:
        builder.place(d)
    slot = builder.slots.__getitem__
    return ShapeProgram(
        tuple(builder.loads),
        tuple(builder.rows),
        tuple((slot(c.condition), c.message, tuple(map(slot, c.operands))) for c in checks),
        tuple(tuple(map(slot, out)) for out in outputs),
    )


class _Builder:
    """Assigns a slot to every Dim; equal rows share a slot."""

    def __init__(self, unknowns: Iterable[Dim], loads: Mapping[Dim, Load]) -> None:
        self.loads: dict[Load, int] = {}
        self.rows: list[Row] = []
        self.slots: dict[Dim, int] = {}
        self._known: dict[Row, int] = {}
        for d in unknowns:
            self.slots[d] = self.loads.setdefault(loads[d], len(self.loads))

    def place(self, d: Dim) -> None:
        """Assign a slot to ``d``; its operands have slots already."""
        if d in self.slots:
            return
        assert d.op not in (*UNKNOWNS, ANY_DIM), f"nothing says where {d} is read"
        if d.op == INT:
            self.slots[d] = self._const(d.args[0])
        elif d.op == RESULT:
            self.slots[d] = self.slots[d.args[0]]
        elif d.op == POLY:
            self.slots[d] = self._poly(d)
        else:
            self.slots[d] = self._row(d.op, *(self.slots[a] for a in d.args))

    def _poly(self, d: Dim) -> int:
        negated = (1 - d).args if d.op == POLY and (1 - d).op in (EQ, LT) else None
        if negated is not None:
            # 1 - condition as condition == 0: one row instead of three
            return self._row(EQ, self.slots[1 - d], self._const(0))
        total = None
        for coefficient, atoms in d.args:
            term = None
            for slot in [self.slots[a] for a in atoms] + ([self._const(coefficient)] if coefficient != 1 or not atoms else []):
                term = slot if term is None else self._row(MUL, term, slot)
            assert term is not None
            total = term if total is None else self._row(ADD, total, term)
        assert total is not None
        return total

    def _const(self, value: int) -> int:
        if not INT64_MIN <= value <= INT64_MAX:
            raise ShapeError(f"a size is too large: {value}")
        return self._row("const", value)

    def _row(self, op: str, *operands: int) -> int:
        a, b, c = (*operands, 0, 0, 0)[:3]
        row = (OPCODES[op], a, b, c)
        if row not in self._known:
            self._known[row] = len(self.loads) + len(self.rows)
            self.rows.append(row)
        return self._known[row]


# ---- loads and text -----------------------------------------------------------------------------------------------


def as_word(value: Any) -> int:
    """A Python number as the int64 word of a load: a float becomes the bit pattern of its float64 value."""
    if isinstance(value, float):
        (bits,) = struct.unpack("<q", struct.pack("<d", value))
        return int(bits)
    number = int(value)
    return number - 2**64 if number > INT64_MAX else number


def data_words(array: Any) -> tuple[int, ...]:
    """The elements of a numpy array, row-major, as words of loads."""
    return tuple(map(as_word, array.reshape(-1).tolist()))


def constant_dims(array: Any) -> Shape:
    """The elements of a numpy array as constant dims: the ``Operand.data`` of a constant."""
    return tuple(map(dim, data_words(array)))


def _load(value: Any, kind: int, index: int) -> int:
    return int(value.shape[index]) if kind == SIZE else as_word(value.reshape(-1)[index].item())


def _show(op: int, operands: list[Any]) -> str:
    sign = {ADD: " + ", MUL: " * "}.get(OPERATIONS[op])
    return sign.join(map(str, operands)) if sign else f"{OPERATIONS[op]}({', '.join(map(str, operands))})"


def _holes(message: str) -> int:
    """The number of ``{}`` in a message; -1 if it has any other field."""
    try:
        parts = list(string.Formatter().parse(message))
    except ValueError:
        return -1
    fields = [(name, spec, conversion) for _, name, spec, conversion in parts if name is not None]
    return len(fields) if all(f == ("", "", None) for f in fields) else -1


def _ints(values: Any, n: int | None = None) -> tuple[int, ...]:
    if not isinstance(values, list) or not all(type(v) is int for v in values) or n not in (None, len(values)):
        raise TypeError(f"{values!r} is not a list of {'' if n is None else f'{n} '}ints")
    return tuple(values)


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value
