"""Which storages the values of a function lie in, and from when to when each storage is needed.

Bindings are numbered in the order in which they can run: those before an ``if``, then its true branch, then its false branch,
then what follows.  A run visits some of these numbers, in ascending order, and never comes back: a loop is a call.  So a storage
that no later number uses is dead, whichever way a run goes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from ...ops import machine
from ...ops.op import Op
from ...ops.ty import TensorType
from ..anf import operands
from ..ir import Call, Expr, Function, If, Let, Tuple, TupleGetItem, Var

#: Used by the caller: never dead in the function.
FOR_EVER = 1 << 60
#: What a value may lie in besides storages of the function: those of a parameter, a constant, a copy, a callee's result.
ELSEWHERE = Var("elsewhere")
#: Calls that make a storage, and those that make a tensor in one.
MAKES_STORAGE = (machine.ALLOC_STORAGE, machine.ALLOC_STORAGE_REG)
MAKES_TENSOR = (machine.ALLOC_TENSOR, machine.ALLOC_TENSOR_REG)
#: Calls whose result has the type of a tensor and is none.
_NO_TENSORS = (*MAKES_STORAGE, machine.TAKE_STORAGE, machine.COPY_BEGIN)
#: Calls whose result is its first argument, or part of it, or holds it.
_VIEWS = (
    machine.RESHAPE_TENSOR,
    machine.SLICE_TENSOR,
    machine.COPY_BEGIN,
    machine.ASSERT_SHAPE,
    machine.ASSERT_SAME_SIZE,
)
#: Calls whose result holds none of their arguments.
_MAKES_ITS_OWN = (machine.SHAPE_OF, machine.SHAPE_FUNC, machine.SIZES, machine.LOAD_CONST, machine.COPY_WAIT)
#: Calls that take memory of their own, of a size that a plan does not know.
_ALLOCATES = (machine.DEVICE_COPY, machine.COPY_BEGIN, machine.COPY_WAIT, machine.TRIM)

#: Which branches a binding is in: the number of each ``if`` around it, and which branch.
Path = tuple[tuple[int, bool], ...]


@dataclass
class Storage:
    """One storage that the function allocates: by which binding, in which branches, for which tensor, which a call makes."""

    var: Var
    call: Call
    at: int
    path: Path
    tensor: Var | None = None
    makes: Call | None = None
    uses: list[int] = field(default_factory=list)

    @property
    def last(self) -> int:
        """The last number at which something in it is used."""
        return max([self.at, *self.uses])

    @property
    def device(self) -> str:
        return str(self.call.attrs.device)

    def is_in_scope(self, path: Path) -> bool:
        """Is its variable bound for those in the branches ``path``?"""
        return path[: len(self.path)] == self.path


@dataclass(frozen=True)
class Launch:
    """A run of a kernel."""

    at: int
    path: Path
    call: Call

    @property
    def inputs(self) -> tuple[Expr, ...]:
        return self.call.args[1 : len(self.call.args) - self.call.attrs.n_outputs]

    @property
    def outputs(self) -> tuple[Expr, ...]:
        return self.call.args[len(self.call.args) - self.call.attrs.n_outputs :]


class StorageRoots:
    """What the functions of a plan ask about one function.

    ==============  ==================================================================================================
    ``storages``    in the order of their allocation
    ``launches``    of kernels
    ``calls``       the numbers of calls of functions, which may run for long and take any memory
    ``others``      those of bindings that take memory unplanned
    ``ifs``         what the ``if`` of a number is bound to
    ``trims``       of upper bounds, by number
    ``bound``       every variable
    ``tensors``     where each variable that holds a tensor is bound
    ``constants``   what is loaded
    ``shifted``     values that may begin elsewhere than where their storage does
    ==============  ==================================================================================================

    ``reads``: which arguments of a call must hold their elements; those of which only the shape counts may lie in memory that is
    another's by then.
    """

    def __init__(self, function: Function, reads: Callable[[Call], Sequence[Expr]]) -> None:
        self._reads = reads
        self.storages: dict[Var, Storage] = {}
        self.launches: list[Launch] = []
        self.calls: list[int] = []
        self.others: list[int] = []
        self.ifs: dict[int, Var] = {}
        self.trims: list[tuple[int, Call]] = []
        self.bound: set[Var] = set(function.params)
        self.tensors: dict[Var, tuple[int, Path]] = {p: (-1, ()) for p in function.params if isinstance(p.ty, TensorType)}
        self.constants: set[Var] = set()
        self.shifted: set[Expr] = set()
        self._in: dict[Var, frozenset[Var]] = {p: frozenset([ELSEWHERE]) for p in function.params}
        self._uses: dict[Var, list[int]] = {}
        self._next = 0
        self._use(self._chain(function.body, ()), FOR_EVER)

    def of(self, atom: Expr) -> frozenset[Var]:
        """The storages that a value may lie in, and ELSEWHERE."""
        return self._in.get(atom, frozenset()) if isinstance(atom, Var) else frozenset()

    def uses_of(self, value: Var) -> Sequence[int]:
        """The numbers at which a value itself is used, or a value that it may be."""
        return self._uses.get(value, ())

    def writers(self, tensor: Var) -> list[Launch]:
        """The launches that fill a tensor: one on each way that a run can take."""
        return [launch for launch in self.launches if tensor in launch.outputs]

    def _use(self, atom: Expr, at: int) -> None:
        if isinstance(atom, Var):
            self._uses.setdefault(atom, []).append(at)
        for root in self.of(atom) - {ELSEWHERE}:
            self.storages[root].uses.append(at)

    def _number(self) -> int:
        self._next += 1
        return self._next - 1

    def _chain(self, chain: Expr, path: Path) -> Expr:
        """Number the bindings of a chain; what it ends in."""
        while isinstance(chain, Let):
            self._binding(chain.var, chain.value, path)
            chain = chain.body
        return chain

    def _binding(self, var: Var, value: Expr, path: Path) -> None:
        at = self._number()
        self.bound.add(var)
        if isinstance(var.ty, TensorType) and not (isinstance(value, Call) and value.op in _NO_TENSORS):
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
                self._in[var] = frozenset().union(*(self.of(e) or {ELSEWHERE} for e in ends))
                self._follow(var, ends)
            case Call(op=Op() as op) if op in MAKES_STORAGE:
                self.storages[var] = Storage(var, value, at, path)
                self._in[var] = frozenset([var])
            case Call():
                self._call(var, value, at, path)
            case Tuple() | TupleGetItem():
                self._in[var] = frozenset().union(*(self.of(a) or {ELSEWHERE} for a in operands(value)), [ELSEWHERE])
            case _:
                self._in[var] = self.of(value) or frozenset([ELSEWHERE])
        self._follow(var, operands(value))

    def _follow(self, var: Var, made_of: Sequence[Expr]) -> None:
        """A value made of one that is shifted may be, too."""
        if not self.shifted.isdisjoint(made_of):
            self.shifted.add(var)

    def _call(self, var: Var, call: Call, at: int, path: Path) -> None:
        if not isinstance(call.op, Op):
            self.calls.append(at)
        elif call.op in _ALLOCATES:
            self.others.append(at)
        if call.op is machine.INVOKE_OP:
            self.launches.append(Launch(at, path, call))  # which has no value
        elif call.op in MAKES_TENSOR:
            (storage,) = self.of(call.args[0])
            self.storages[storage].tensor, self.storages[storage].makes = var, call
            self._in[var] = frozenset([storage])
        elif call.op in _VIEWS:
            if call.op is machine.SLICE_TENSOR:
                self.shifted.add(var)
            self._in[var] = self.of(call.args[0]) or frozenset([ELSEWHERE])
        elif call.op is machine.TRIM:
            self.trims.append((at, call))
            self._in[var] = self.of(call.args[0]) | {ELSEWHERE}  # its rows may have moved into a storage of their own
        elif call.op in _MAKES_ITS_OWN:
            if call.op is machine.LOAD_CONST:
                self.constants.add(var)
            self._in[var] = frozenset([ELSEWHERE])
        else:
            # a callee's result, or a closure, may hold whatever was passed
            self._in[var] = frozenset().union(*map(self.of, operands(call)), [ELSEWHERE])
