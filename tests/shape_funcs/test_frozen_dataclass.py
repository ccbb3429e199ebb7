"""Frozen dataclasses behave as those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from relayvm.declarations.frozen_dataclass import frozen

Decorate = Callable[..., Any]


def _family(decorate: Decorate) -> list[type]:
    """Classes that use what dataclasses offer."""

    @decorate
    class Empty:
        """No fields."""

    @decorate
    class One:
        """A field."""

        x: int

    @decorate
    class Many:
        """Defaults of all kinds."""

        x: int
        y: tuple[int, ...] = (1, 2)
        z: list[int] = field(default_factory=list, compare=False)
        hidden: str = field(default="h", repr=False)
        kept: ClassVar[int] = 3
        made: int = field(init=False, default=7)

    @decorate
    class Derived(Many):
        """Fields after those of the base class, and work after construction."""

        w: float = 0.5

        def __post_init__(self) -> None:
            object.__setattr__(self, "made", self.x + 1)

    @decorate
    class Own:
        """Methods of its own."""

        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self)) and self.x % 2 == other.x % 2

        def __repr__(self) -> str:
            return "own"

    return [Empty, One, Many, Derived, Own]


OURS, THEIRS = _family(frozen), _family(dataclass(frozen=True))
ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), ((1,), {}), ((3,), {}), ((1, (5,)), {}), ((1,), {"z": [4]}), ((1,), {"hidden": "i"}), ((), {"x": 2}),
    ((), {"none": 1}),
    ((1, (2,), [3], "4"), {"w": 2.0}), ((1, 2, 3, 4, 5, 6), {}),
]  # fmt: skip


def _instances(cls: type) -> list[Any]:
    found: list[Any] = []
    for args, kwargs in ARGUMENTS:
        try:
            found.append(cls(*args, **kwargs))
        except TypeError:
            found.append(None)
    return found


@pytest.mark.parametrize(("ours", "theirs"), list(zip(OURS, THEIRS, strict=True)), ids=[c.__name__ for c in OURS])
def test_instances_are_made_compared_and_shown_alike(ours: type, theirs: type) -> None:
    a, b = _instances(ours), _instances(theirs)
    assert [repr(x) for x in a] == [repr(x) for x in b]
    assert [[x == y for y in a] for x in a] == [[x == y for y in b] for x in b]
    assert [[x is not None and hash(x) == hash(y) for y in a] for x in a] == [
        [x is not None and hash(x) == hash(y) for y in b] for x in b
    ]
    assert [x and dataclasses.asdict(x) for x in a] == [x and dataclasses.asdict(x) for x in b]
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    assert ours.__match_args__ == theirs.__match_args__  # type: ignore[attr-defined]


def test_an_instance_does_not_change() -> None:
    many: Any = OURS[2](1)
    for change in (lambda: setattr(many, "x", 2), lambda: delattr(many, "x"), lambda: setattr(many, "other", 2)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            change()
    assert dataclasses.replace(many, x=5) == OURS[2](5)


@frozen(kw_only=True)
class Named:
    """Keywords only."""

    x: int
    y: int = 2


@frozen(eq=False)
class Identity:
    """Equal only to itself."""

    x: int


def test_options() -> None:
    assert (Named(y=3, x=1).x, Named(x=1).y) == (1, 2)
    with pytest.raises(TypeError, match="positional"):
        Named(1)  # type: ignore[misc]
    one = Identity(1)
    assert one != Identity(1) and {one: 1}[one] == 1


def test_copies_are_equal() -> None:
    named = Named(x=4)
    assert pickle.loads(pickle.dumps(named)) == copy.deepcopy(named) == named
