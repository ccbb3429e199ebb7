"""Multi-versioning: one call of a primitive whose implementation is selected by sizes at run time.

::

    let %shapes = vm.shape_func(@nn_dense, %x, %w);     -- its shapes, then 1 or 0 for each version but the last
    let %shape = %shapes.0;
    let %is_rows = %shapes.1;
    ...
    let %_ = if (%is_rows) {
      let %_1 = vm.invoke_op(@nn_dense_rows, %x, %w, %y);
      %_1
    } else {
      let %_2 = vm.invoke_op(@nn_dense_blas, %x, %w, %y);
      %_2
    };

The host branches on results of the shape function: it does not wait for the device, and one storage serves all versions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ops.core.conditions import Choice, conditions_text
from .effects import effect_of
from .expr import Expr, Function, If, let_chain, replace
from .primitive import BECAUSE, IMPLEMENTATION


def is_launch(value: Expr) -> bool:
    """Whether ``value`` launches a kernel, or one of several versions.  It has no value, and hence no register."""
    while isinstance(value, If):
        bindings, result = let_chain(value.true_branch)
        if not bindings or result is not bindings[-1][0]:
            return False
        value = bindings[-1][1]
    return effect_of(value).launches


def version(function: Function, name: str, because: str) -> Function:
    """The primitive ``function`` with the implementation ``name``."""
    return replace(function, attrs={**function.attrs, IMPLEMENTATION: name, BECAUSE: because})


def reasons(choice: Choice) -> Sequence[str]:
    """The condition of each version, as text."""
    return [*(conditions_text(conditions) for _, conditions in choice.versions[:-1]), "otherwise"]
