"""Liveness of storages, and the storages that each value of a function may alias.

Bindings are numbered in an order in which they can run: the bindings before an ``if``, its true branch, its false branch, the
bindings after it.  A run visits some of these numbers in ascending order and never returns to a smaller one: a loop is a call. So
a storage without a later use is dead on every path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...declarations.frozen_dataclass import frozen
from ...ops.core.effect import Result, Role
from ...ops.core.op import Op
from ...ops.core.tensor_types import TensorType, tensor_bytes
from ...shape_funcs.symbolic.dim import Dim
from ..ir.anf import operands
from ..ir.effects import effect_of
from ..ir.expr import Call, Expr, Function, If, Let, Tuple, TupleGetItem, Var, tensor_type

#: The number of a use by the caller: the value is live at the exit of the function.
LIVE_OUT = 1 << 60
#: The memory that is not allocated by the function: of a parameter, a constant, a copy, a callee's result.
EXTERNAL = Var("external")
#: The branches around a binding, the outermost first: the number of the ``if``, and True for its true branch.
Path = tuple[tuple[int, bool], ...]


@dataclass
class Storage:
    """A storage that the function allocates.

    ``var``, ``call``: the binding; ``at``: its number; ``path``: the branches around it; ``tensor``, ``makes``: the tensor stored
    there and the call that creates the tensor; ``uses``: the numbers of the uses of its aliases.
    """

    var: Var
    call: Call
    at: int
    path: Path
    tensor: Var | None = None
    makes: Call | None = None
    uses: list[int] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The last number at which an alias of the storage is used."""
        return max([self.at, *self.uses])

    @property
    def device(self) -> str:
        return str(self.call.attrs.device)

    @property
    def ty(self) -> TensorType:
        """The type of the tensor."""
        assert self.tensor is not None
        return tensor_type(self.tensor)

    @property
    def nbytes(self) -> Dim:
        """The size of the tensor in bytes."""
        return tensor_bytes(self.ty)

    def is_in_scope(self, path: Path) -> bool:
        """Whether the variable of the storage is in scope in the branches ``path``."""
        return path[: len(self.path)] == self.path


@frozen
class Launch:
    """A launch of a kernel."""

    at: int
    path: Path
    call: Call

    @property
    def inputs(self) -> tuple[Expr, ...]:
        return self.call.args[1 : len(self.call.args) - self.call.attrs.n_outputs]

    @property
    def outputs(self) -> tuple[Expr, ...]:
        return self.call.args[len(self.call.args) - self.call.attrs.n_outputs :]


class Liveness:
    """Live ranges and aliases of the storages of one function.

    ==============  ==================================================================================================
    ``storages``    the storages, in order of allocation
    ``launches``    the launches of kernels
    ``calls``       the numbers of calls of functions, which may run for long and allocate any amount of memory
    ``unplanned``   the numbers of other bindings that allocate memory outside the plan
    ``ifs``         the variable that the ``if`` of each number is bound to
    ``trims``       the trims of upper bounds, with their numbers
    ``bound``       all variables
    ``tensors``     the number and branches at which each tensor variable is bound
    ``constants``   the loaded constants
    ``shifted``     the values that may begin at a nonzero offset of their storage
    ==============  ==================================================================================================

    ``reads``: the arguments of a call whose elements must be intact.  An argument of which only the shape is used may alias
    memory that is reused before the call.
    """

    def __init__(self, function: Function, reads: Callable[[Call], Sequence[Expr]]) -> None:
        self._reads = reads
        self.storages: dict[Var, Storage] = {}
        self.launches: list[Launch] = []
        self._writers: dict[Expr, list[Launch]] = {}
        self.calls: list[int] = []
        self.unplanned: list[int] = []
        self.ifs: dict[int, Var] = {}
        self.trims: list[tuple[int, Call]] = []
        self.bound: set[Var] = set(function.params)
        self.tensors: dict[Var, tuple[int, Path]] = {p: (-1, ()) for p in function.params if isinstance(p.ty, TensorType)}
        self.constants: set[Var] = set()
        self.shifted: set[Expr] = set()
        self._storages: dict[Var, frozenset[Var]] = {p: frozenset([EXTERNAL]) for p in function.params}
        self._uses: dict[Var, list[int]] = {}
        self._next = 0
        self._use(self._chain(function.body, ()), LIVE_OUT)

    def storages_of(self, atom: Expr) -> frozenset[Var]:
        """The storages that a value may alias, and EXTERNAL."""
        return self._storages.get(atom, frozenset()) if isinstance(atom, Var) else frozenset()

    def uses_of(self, value: Var) -> Sequence[int]:
        """The numbers of the uses of a value and of its copies."""
        return self._uses.get(value, ())

    def writers(self, tensor: Var) -> list[Launch]:
        """The launches that write a tensor: one on each path of control flow."""
        return self._writers.get(tensor, [])

    def _use(self, atom: Expr, at: int) -> None:
        if isinstance(atom, Var):
            self._uses.setdefault(atom, []).append(at)
        for root in self.storages_of(atom) - {EXTERNAL}:
            self.storages[root].uses.append(at)

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _chain(self, chain: Expr, path: Path) -> Expr:
        """Number the bindings of a chain; its result."""
        while isinstance(chain, Let):
            self._binding(chain.var, chain.value, path)
            chain = chain.body
        return chain

    def _binding(self, var: Var, value: Expr, path: Path) -> None:
        at = self._number()
        self.bound.add(var)
        if isinstance(var.ty, TensorType) and effect_of(value).result not in (Result.STORAGE, Result.PENDING):
            self.tensors[var] = at, path
        for atom in self._reads(value) if isinstance(value, Call) else operands(value):
            self._use(atom, at)
        match value:
            case If():
                self.ifs[at] = var
                ends = []
                for which, chain in ((True, value.true_branch), (False, value.false_branch)):
                    ends.append(self._chain(chain, (*path, (at, which))))
                    self._use(ends[-1], self._number())
                self._storages[var] = frozenset().union(*(self.storages_of(e) or {EXTERNAL} for e in ends))
                self._follow(var, ends)
            case Call(op=Op() as op) if op.effect.makes_storage:
                self.storages[var] = Storage(var, value, at, path)
                self._storages[var] = frozenset([var])
            case Call():
                self._call(var, value, at, path)
            case Tuple() | TupleGetItem():
                self._storages[var] = frozenset().union(*(self.storages_of(a) or {EXTERNAL} for a in operands(value)), [EXTERNAL])
            case _:
                self._storages[var] = self.storages_of(value) or frozenset([EXTERNAL])
        self._follow(var, operands(value))

    def _follow(self, var: Var, made_of: Sequence[Expr]) -> None:
        """Mark ``var`` as shifted if one of its operands is."""
        if not self.shifted.isdisjoint(made_of):
            self.shifted.add(var)

    def _call(self, var: Var, call: Call, at: int, path: Path) -> None:
        effect = effect_of(call)
        if not isinstance(call.op, Op):
            self.calls.append(at)
        elif effect.allocates_unplanned:
            self.unplanned.append(at)
        if effect.launches:
            self.launches.append(Launch(at, path, call))  # a launch has no value
            for output in dict.fromkeys(self.launches[-1].outputs):
                self._writers.setdefault(output, []).append(self.launches[-1])
        elif effect.makes_tensor:
            (storage,) = self.storages_of(call.args[0])
            self.storages[storage].tensor, self.storages[storage].makes = var, call
            self._storages[var] = frozenset([storage])
        elif effect.is_view:
            if Role.WHOLE in effect.roles:
                self.shifted.add(var)
            self._storages[var] = self.storages_of(call.args[0]) or frozenset([EXTERNAL])
        elif effect.moves:
            self.trims.append((at, call))
            self._storages[var] = self.storages_of(call.args[0]) | {EXTERNAL}  # the rows may have been moved to a new storage
        elif effect.is_new:
            if Role.CONST in effect.roles:
                self.constants.add(var)
            self._storages[var] = frozenset([EXTERNAL])
        elif Role.STORED in effect.roles:
            # any later code may read the value from the reference
            self._use(call.args[effect.roles.index(Role.STORED)], LIVE_OUT)
            self._storages[var] = frozenset([EXTERNAL])
        else:
            # a callee's result, a closure or a record may alias any argument
            self._storages[var] = frozenset().union(*map(self.storages_of, operands(call)), [EXTERNAL])
