"""The call of a kernel in Python: its operands in the order of its operator's inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ....ops.core.group import Group
from ....ops.core.implementation import HOST
from ....ops.core.tensor_types import numpy_dtype


def call_in_python(group: Group, arrays: Sequence[np.ndarray]) -> None:
    """Call the kernel in Python of a group; ``arrays``: one for each parameter of the group, then those that the kernel writes.

    An operand may be a literal of the group, and two operands may be one parameter.
    """
    node, kernel, n = group.nodes[0], group.kernel_on(HOST), len(group.params)
    assert kernel is not None and kernel.body is not None
    values = [*arrays[:n], *(np.array(c.value, numpy_dtype(c.dtype)) for c in group.literals)]
    operands = [values[ref] for arg in node.args for ref in (arg if isinstance(arg, tuple) else (arg,))]
    kernel.body(*operands, *arrays[n:], **kernel.attrs(node.attrs))
