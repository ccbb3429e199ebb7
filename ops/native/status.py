"""Status codes of kernels, shape programs and the machine: small numbers, each with one meaning.

Machine code never raises.  It returns a status, and Python makes the exception, with the source location and the shapes.
"""

from __future__ import annotations

STATUS: dict[int, str] = {}


def _status(number: int, meaning: str) -> int:
    assert number not in STATUS
    STATUS[number] = meaning
    return number


OK = _status(0, "no error")
INDEX_OUT_OF_RANGE = _status(1, "an index is out of range")
SHAPE_CHECK = _status(2, "shapes do not fit")
OUT_OF_MEMORY = _status(3, "out of memory")
SIZE_OVERFLOW = _status(4, "a size is negative or too large")
NOT_ON_HOST = _status(5, "the host was asked to read a tensor that is on the device")
STACK_OVERFLOW = _status(6, "the stack is full: recursion is too deep")
NO_MATCH = _status(7, "no case matches")
BAD_VALUE = _status(8, "an input has a value that the operator does not take")
DIVISION_BY_ZERO = _status(9, "integer division by zero")
EMPTY_REDUCTION = _status(10, "an empty axis has no minimum or maximum")
HOST_KERNEL = _status(11, "a kernel in Python failed")
INTERNAL = _status(12, "the machine is in a state it must never be in")
RESULT_LOST = _status(13, "the work that makes this tensor was dropped, because work before it failed")
DEVICE_ERROR = _status(14, "the device reports an error")
MISFIT = _status(15, "the tensors of a launch are not such as its kernel takes: the executable is damaged")
BAD_COUNT = _status(16, "a kernel reports a size below 0 or above its upper bound")

#: Failures of single elements: an optimised program computes the elements that its result needs, and these alone may fail.
OF_ELEMENTS = frozenset({INDEX_OUT_OF_RANGE, BAD_VALUE, DIVISION_BY_ZERO, EMPTY_REDUCTION, HOST_KERNEL})
#: Failures of sizes: they are found where sizes are computed, whether or not an element is.
OF_SIZES = frozenset({SHAPE_CHECK, SIZE_OVERFLOW})
#: Failures of control flow: they are found where it arrives.
OF_CONTROL = frozenset({NO_MATCH})
#: Failures of the machine: no program states their condition.
OF_THE_MACHINE = frozenset({OUT_OF_MEMORY, NOT_ON_HOST, STACK_OVERFLOW, INTERNAL, RESULT_LOST, DEVICE_ERROR, MISFIT, BAD_COUNT})
