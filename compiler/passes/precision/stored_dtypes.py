"""The dtype in which each tensor of a program is stored: a half, or float32.

* Products read and write halves.  So do softmax and pools of halves.
* A result of elementwise operators and reductions is a half if an operand is.  A result in which float16 would lose its range,
  and what is computed of it, stays float32 until a kernel that is not fused reads it.
* A tensor that only operators of float32 and the results of the program are computed of is float32.
* A tensor computed of float32 alone is a half if all its readers compute with halves.
"""

from __future__ import annotations

from collections import defaultdict

from ....ops.core.op import Op
from ....ops.core.tensor_types import TensorType, numpy_dtype
from ...ir.expr import Constant
from .operator_precision import SENSITIVE, WIDE, WIDE_RESULTS, Role
from .stored_values import Operation, StoredValues

#: States of a class: computed of float32 alone, stored as halves, computed of halves and stored in float32.
_GIVEN, _NARROW, _KEPT = range(3)


class StoredDtypes:
    """The dtypes of the classes of ``values``.  ``narrow``: the classes of halves."""

    def __init__(self, values: StoredValues) -> None:
        self.values, self.fixed = values, values.fixed
        self.operations = list(values.by_call.values())
        self.readers: dict[int, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            if operation.role is not Role.MOVE:
                for number in self._found(operation.reads):
                    self.readers[number].append(operation)
        self.exits = self._exits()
        #: Classes that kernels which are not fused read or write as halves.
        self.stored: set[int] = set()
        self.states: dict[int, int] = {}
        self._solve()
        self.narrow = {n for n in self.states if self.state(n) == _NARROW}
        self.narrow |= self._better_narrow()

    def is_narrow(self, number: int) -> bool:
        """Whether the tensors of a class are halves."""
        return self.values.find(number) in self.narrow

    def computes_narrow(self, operation: Operation) -> bool:
        """Whether an operator takes halves, and gives halves; else it takes and gives float32."""
        role = operation.role
        if role is Role.PRODUCT:
            return True
        if role is Role.FOLLOW:
            return any(map(self.is_narrow, operation.writes))
        if role is Role.MOVE:
            return any(map(self.is_narrow, (*operation.reads, *operation.writes)))
        return role is Role.ELEMENTS and self._is_narrow_sum(operation)

    def is_of_float32(self, operation: Operation) -> bool:
        """Whether no operand is computed of halves."""
        return not any(map(self.state, operation.reads))

    def gives_wide(self, operation: Operation) -> bool:
        """Whether a product of halves stores float32."""
        named = operation.call.op.name in WIDE_RESULTS if isinstance(operation.call.op, Op) else False
        return operation.role is Role.PRODUCT and named and not any(map(self.is_narrow, operation.writes))

    # ---- the solution ----

    def _found(self, numbers: tuple[int, ...]) -> set[int]:
        return set(map(self.values.find, numbers))

    def state(self, number: int) -> int:
        """The state of a class."""
        number = self.values.find(number)
        if number in self.fixed:
            return _GIVEN
        state = self.states.get(number, _GIVEN)
        return min(state, _NARROW) if number in self.stored else state

    def _exits(self) -> set[int]:
        """The classes of which only results of the program, operators of float32 and comparisons are computed."""
        unread = {n for operation in self.operations for n in self._found(operation.writes)} - self.readers.keys()
        found = set(self.fixed) | unread
        while True:
            more = {n for n, readers in self.readers.items() if n not in found and all(self._leaves(r, found) for r in readers)}
            if not more:
                return found
            found |= more

    def _leaves(self, reader: Operation, exits: set[int]) -> bool:
        return reader.role is Role.WIDE or (reader.role is not Role.PRODUCT and self._found(reader.writes) <= exits)

    def _solve(self) -> None:
        while True:
            before = set(self.stored)
            self.states = {}
            while self._step():
                pass
            if before == self.stored:
                return

    def _step(self) -> bool:
        """Apply each operation's rule once; whether a state has changed."""
        before = dict(self.states), set(self.stored)
        for operation in self.operations:
            reads, writes = self._found(operation.reads), self._found(operation.writes)
            if operation.role is Role.PRODUCT:
                given = operation.call.op.name in WIDE_RESULTS if isinstance(operation.call.op, Op) else False
                kept = {n for n in writes if given and n in self.exits}
                self._raise(kept, _KEPT)
                self._store(reads | (writes - kept))
            elif operation.role is Role.FOLLOW and any(map(self.state, reads)):
                if reads | writes <= self.exits and not reads & self.stored:
                    self._raise(writes, _KEPT)
                else:
                    self._store(reads | writes)
            elif operation.role is Role.MOVE and _is_table(operation):
                self._raise(writes - self.exits, _NARROW)
            elif operation.role is Role.ELEMENTS and any(map(self.state, reads)):
                keeps = self._is_sensitive(operation) or _KEPT in map(self.state, reads) or bool(writes & self.exits)
                self._raise(writes, _KEPT if keeps else _NARROW)
        return before != (self.states, self.stored)

    def _raise(self, numbers: set[int], state: int) -> None:
        for number in numbers - self.fixed:
            self.states[number] = max(self.states.get(number, _GIVEN), state)

    def _store(self, numbers: set[int]) -> None:
        self.stored |= numbers - self.fixed
        self._raise(numbers, _NARROW)

    def _is_narrow_sum(self, operation: Operation) -> bool:
        """Whether an elementwise operator computes with halves."""
        states = set(map(self.state, operation.reads))
        writes = self._found(operation.writes)
        narrow = bool(writes) and all(self.state(n) == _NARROW for n in writes)
        return narrow and _NARROW in states and _KEPT not in states and not self._loses_number(operation)

    def _is_sensitive(self, operation: Operation) -> bool:
        """Whether the result of an elementwise operator is better not stored as a half."""
        op = operation.call.op
        return (isinstance(op, Op) and op.name in SENSITIVE) or self._loses_number(operation)

    def _loses_number(self, operation: Operation) -> bool:
        """Whether a number among the operands would be 0 as a half."""
        half = numpy_dtype(self.values.dtype)
        numbers = [a.data for a in operation.call.args if isinstance(a, Constant) and a.data.ndim == 0]
        return any(x.dtype.name == WIDE and x != 0 and x.astype(half) == 0 for x in numbers)

    def _better_narrow(self) -> set[int]:
        """Classes computed of float32 alone whose readers all compute with halves."""
        written = {n for operation in self.operations if operation.role is not Role.MOVE for n in self._found(operation.writes)}
        return {
            n
            for n, readers in self.readers.items()
            if n in written - self.fixed and self.state(n) == _GIVEN and all(map(self.computes_narrow, readers))
        }


def _is_table(operation: Operation) -> bool:
    """Whether a call takes rows of a constant matrix, such as the embeddings of words."""
    call = operation.call
    data = call.args[0]
    is_matrix = isinstance(data, Constant) and isinstance(data.ty, TensorType) and data.ty.rank == 2
    return is_matrix and isinstance(call.op, Op) and call.op.name == "take"
