"""A recipe: sampling of an operator's arguments, and the expected results by numpy."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm import ops  # noqa: F401  (registers)
from relayvm.ops.core.group import Group, Node
from relayvm.ops.core.op import REGISTRY, Op, OpPattern, TypeRelError
from relayvm.ops.core.tensor_types import DTYPES, Tensor
from relayvm.ops.core.type_relation import apply_shape_func, build_group
from relayvm.shape_funcs.symbolic.dim import Dim, dim
from relayvm.shape_funcs.symbolic.program import constant_dims
from relayvm.shape_funcs.symbolic.registry import Operand

from .drawing import Draw

Input = "np.ndarray | tuple[np.ndarray, ...]"


@dataclass(frozen=True)
class Call:
    """One call of an operator.

    ``inputs``: arrays, a tuple of them for a tuple input.  ``oracle`` gives the results by numpy, or a text: then the call must
    be refused, at compile time or at run time, with a message that has this text; it is not asked for a dtype that the operator
    does not take.  ``fixed``: (flat input, axis) whose size the operator wants to know at compile time.  ``tolerance``: times
    the dtype's own.
    """

    inputs: tuple[Any, ...]
    attrs: dict[str, Any]
    oracle: Callable[[], Any]
    fixed: frozenset[tuple[int, int]] = frozenset()
    tolerance: float = 1.0

    @functools.cached_property
    def wanted(self) -> tuple[np.ndarray, ...] | str:
        """The result of the oracle."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # the mean of nothing
            found = self.oracle()
        if isinstance(found, str):
            return found
        return tuple(map(np.asarray, found)) if isinstance(found, (tuple, list)) else (np.asarray(found),)

    @functools.cached_property
    def flat(self) -> tuple[np.ndarray, ...]:
        """The arrays, fields of tuples in order."""
        return tuple(x for i in self.inputs for x in (i if isinstance(i, tuple) else (i,)))

    def dtypes(self) -> tuple[Any, ...]:
        """As a dtype rule takes them."""
        return tuple(tuple(x.dtype.name for x in i) if isinstance(i, tuple) else i.dtype.name for i in self.inputs)


def call(
    inputs: Sequence[Any], wanted: Any, *, fixed: Sequence[tuple[int, int]] = (), tolerance: float = 1.0, **attrs: Any
) -> Call:
    """A Call; ``wanted`` is an array, a list of them, the text of a refusal, or a function that gives one of these."""
    arrays = tuple(tuple(i) if isinstance(i, (tuple, list)) else i for i in inputs)
    return Call(arrays, attrs, wanted if callable(wanted) else lambda: wanted, frozenset(fixed), tolerance)


Make = Callable[[Draw, str], Call]


@dataclass(frozen=True)
class Recipe:
    """``make(draw, name)`` makes a call.  It is tried with all dtypes of the main input that the dtype rule takes, or,
    with ``by_width``, one for each kind and width of element: right where an operator only moves elements, or where its kernel
    is slow to compile."""

    make: Make
    by_width: bool = False


RECIPES: dict[str, Recipe] = {}
#: One for each width of an element, and for each kind of number.
WIDTHS = ("float32", "float16", "bfloat16", "float64", "int32", "uint8", "int64", "bool")


def recipe(*names: str, by_width: bool = False) -> Callable[[Make], Make]:
    """Declare the decorated function as the recipe of these operators."""

    def declare(make: Make) -> Make:
        for name in names:
            assert name not in RECIPES, f"two recipes for {name}"
            RECIPES[name] = Recipe(make, by_width)
        return make

    return declare


def operators() -> list[Op]:
    """Every operator that a program may call."""
    return [op for _, op in sorted(REGISTRY.items()) if op.in_language and not op.name.startswith(("test.", "user."))]


def one_of_each_pattern() -> list[str]:
    """The names of the first operators of the patterns."""
    return [op.name for op in {op.pattern: op for op in reversed(operators())}.values()]


def recipe_of(name: str) -> Recipe:
    """The recipe of an operator.  Fails the test where there is none."""
    assert name in RECIPES, (
        f"operator {name} has no recipe: say in tests/ops/every_op/<its family>.py, with @recipe({name!r}), how its arguments "
        "are drawn and what numpy gives"
    )
    return RECIPES[name]


def attrs_of(op: Op, made: Call) -> Any:
    """The attributes as the operator's class has them."""
    return op.attrs(**made.attrs)


def takes(op: Op, made: Call) -> bool:
    """Whether the dtype rule accepts this call."""
    try:
        op.dtype(made.dtypes(), attrs_of(op, made))
    except TypeRelError:
        return False
    return True


@functools.cache
def dtypes_of(name: str) -> tuple[str, ...]:
    """The dtypes of the main input that the operator takes, most telling first."""
    op, own = REGISTRY[name], recipe_of(name)
    order = dict.fromkeys((*WIDTHS, *DTYPES))
    found = tuple(d for d in order if takes(op, own.make(Draw(d, "odd"), name)))
    assert found, f"{name}: its dtype rule takes none of the calls that its recipe makes"
    calls = {d: own.make(Draw(d, "odd"), name) for d in reversed(found)}
    # a recipe may take one dtype for another, where the operator has fewer
    distinct = {repr((c.dtypes(), c.attrs.get("dtype"))): d for d, c in calls.items()}
    found = tuple(d for d in found if d in distinct.values())
    return tuple(d for d in found if d in WIDTHS) or found[:1] if own.by_width else found


def refused_dtypes(name: str) -> tuple[str, ...]:
    """The dtypes of the main input that the operator does not take."""
    op, own = REGISTRY[name], recipe_of(name)
    return tuple(d for d in DTYPES if not takes(op, own.make(Draw(d, "odd"), name)))


def flags_of(op: Op, made: Call) -> tuple[bool, ...]:
    """One flag per flat input."""
    return tuple(
        flag
        for given, flag in zip(made.inputs, op.data_dependent, strict=True)
        for _ in (given if isinstance(given, tuple) else (given,))
    )


def regroup(made: Call, flat: Sequence[Any]) -> Iterator[Any]:
    """``flat`` in the structure of the inputs."""
    items = iter(flat)
    for given in made.inputs:
        yield tuple(next(items) for _ in given) if isinstance(given, tuple) else next(items)


# ---- shapes alone ----------------------------------------------------------------------------------------------------


def known_shapes(op: Op, made: Call) -> list[tuple[Dim, ...]]:
    """The result of the shape function for known sizes and values."""
    operands = [
        Operand(tuple(map(dim, x.shape)), x.dtype.name, constant_dims(x) if flag else None)
        for x, flag in zip(made.flat, flags_of(op, made), strict=True)
    ]
    tensors, checks = apply_shape_func(op, list(regroup(made, operands)), attrs_of(op, made))
    assert not checks, "all is known: nothing is left to check"
    return [t.shape for t in tensors]


def group_of(op: Op, made: Call, dims: Sequence[tuple[Dim, ...]]) -> Group:
    """The primitive of the call, its parameters having these dims."""
    params = [Tensor(x.dtype.name, tuple(d)) for x, d in zip(made.flat, dims, strict=True)]
    node = Node(op.name, attrs_of(op, made), tuple(regroup(made, range(len(params)))), ())
    dtypes = op.dtype(made.dtypes(), attrs_of(op, made))
    count = len(dtypes) if isinstance(dtypes, tuple) else 1
    return build_group(params, (), (node,), range(len(params), len(params) + count))


def is_composite(op: Op) -> bool:
    """Whether the operator is replaced by other operators before code generation."""
    return op.pattern.name == "COMPOSITE"


def upper_bound(op: Op) -> bool:
    """Whether the operator's kernel reports sizes."""
    return not is_composite(op) and op.pattern is not OpPattern.MACHINE and op.shape_func.upper_bound


def has(op: Op, attribute: str) -> bool:
    """Whether the operator has this attribute."""
    return attribute in {f.name for f in dataclasses.fields(op.attrs)}
