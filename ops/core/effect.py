"""Effects of instructions and of the machine operators that become instructions.

Analyses find operands by role, so they name no instruction and no operator.
"""

from __future__ import annotations

from enum import Enum, auto

from ...declarations.frozen_dataclass import frozen


class Role(Enum):
    """The role of an operand in the effect of its instruction or machine operator, which has at most one operand of a role."""

    __hash__ = object.__hash__  # the hash of Enum is Python code, and the verifier looks up roles of every instruction

    #: ``dst`` is the same object as this one, or a view of all its elements.
    ALIASED = auto()
    #: ``dst`` is a view of a part of this tensor.
    WHOLE = auto()
    #: Of this tensor only the sizes are used.
    SIZED = auto()
    #: ``dst`` is a copy of this tensor, or a pending copy that keeps its storage alive.
    COPIED = auto()
    #: ``dst`` is the result of this pending copy.
    PENDING = auto()
    #: ``dst`` is a tensor in this storage, OFFSET bytes from its start.
    STORAGE = auto()
    OFFSET = auto()
    #: The sizes of the tensor ``dst``, or of the tensor that the storage ``dst`` is made for: immediates, or a vector.
    DIMS = auto()
    SHAPE = auto()
    DTYPE = auto()
    #: Bytes of the storage ``dst``.
    NBYTES = auto()
    #: A vector of counts that kernels report, and the index of the one that is the first size of ``dst``.
    COUNTS = auto()
    COUNT_INDEX = auto()
    #: ``dst`` is the storage of this tensor, if it is not shared.
    DONOR = auto()
    #: Whether the elements of ``dst`` may move to a storage of their own.
    RELEASE = auto()
    #: Arguments of a call, a launch or a shape function.
    ARGS = auto()
    CALLEE = auto()
    KERNEL = auto()
    #: Number of outputs of the kernel, the last of ARGS.
    N_OUTPUTS = auto()
    SHAPE_FUNC = auto()
    RESULTS = auto()
    #: The function of a closure, and the values CAPTURED.
    BODY = auto()
    CAPTURED = auto()
    #: A value that is stored in a reference, where any later code may read it.
    STORED = auto()
    CONST = auto()
    #: The device of ``dst``, and the device of the tensor that is copied.
    DEVICE = auto()
    SOURCE_DEVICE = auto()
    REASON = auto()


class Result(Enum):
    """The object that a machine operator defines."""

    TENSOR = auto()
    STORAGE = auto()
    CLOSURE = auto()
    PENDING = auto()
    #: Vectors on the host, each in a register of its own.
    VECTORS = auto()
    NOTHING = auto()


@frozen
class Effect:
    """The effect of a machine operator on memory.

    ``roles``: the role of each input.  ``result``: the object defined.  ``moves``: whether the elements of the result may move to
    a storage of their own, which the attribute ``release`` asks for.
    """

    roles: tuple[Role | None, ...] = ()
    result: Result = Result.TENSOR
    moves: bool = False

    @property
    def makes_storage(self) -> bool:
        """Whether a storage is allocated."""
        return self.result is Result.STORAGE and Role.DONOR not in self.roles

    @property
    def makes_tensor(self) -> bool:
        """Whether a tensor is created in a storage."""
        return Role.STORAGE in self.roles

    @property
    def launches(self) -> bool:
        """Whether a kernel is launched."""
        return Role.KERNEL in self.roles

    @property
    def is_view(self) -> bool:
        """Whether the result always keeps the storage of the first input alive."""
        return not self.moves and (Role.ALIASED in self.roles or Role.WHOLE in self.roles or self.result is Result.PENDING)

    @property
    def is_new(self) -> bool:
        """Whether the result aliases no input."""
        return not _NOT_ALIASED.isdisjoint(self.roles)

    @property
    def allocates_unplanned(self) -> bool:
        """Whether memory of a size unknown to the memory plan is allocated."""
        return self.moves or Role.COPIED in self.roles or Role.PENDING in self.roles

    @property
    def has_register(self) -> bool:
        """Whether the result occupies one register that holds a tensor, a storage or a closure."""
        return self.result not in (Result.NOTHING, Result.VECTORS, Result.PENDING)


#: The effect of other operators.
NO_EFFECT = Effect()
#: Roles of inputs whose elements are not in the result.
_NOT_ALIASED = frozenset([Role.SIZED, Role.SHAPE_FUNC, Role.CONST, Role.PENDING])
