"""Calls of kernels' bodies whose parameters are records."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from relayvm.ops.codegen.cpu.body_call import records_of, text, words_of


class Pair(NamedTuple):
    """A record of arguments."""

    first: Any
    second: Any


class Steps(NamedTuple):
    """A record of constants."""

    stride: Any
    before: Any


class Both(NamedTuple):
    """A record of records, of an argument and of a constant."""

    pair: Pair
    third: Any
    limit: Any


def of_words(a: Any, b: Any, c: Any) -> Any:
    return a, b, c


def of_pair(a: Any, rest: Pair, steps: Steps) -> Any:
    return a, rest, steps


def of_both(both: Both, last: Any) -> Any:
    return both, last


def called(body: Any, arguments: list[str], **constants: Any) -> Any:
    names = {kind.__name__: kind for kind in (body, *records_of(body))}
    return eval(text(body, iter(arguments), {name: repr(value) for name, value in constants.items()}), names)


def test_a_body_of_words_gets_them_in_order() -> None:
    assert text(of_words, iter("xyz"), {}) == "of_words(x, y, z)"


def test_a_record_takes_as_many_arguments_as_it_has_fields() -> None:
    assert tuple(words_of(of_pair)) == ("a", "first", "second", "stride", "before")
    found = called(of_pair, ["1", "2", "3"], before=(5, 6), stride=(7, 8), unknown=9)
    assert found == (1, Pair(2, 3), Steps((7, 8), (5, 6)))


def test_a_record_of_arguments_and_constants() -> None:
    assert called(of_both, ["1", "2", "3", "4"], limit=5) == (Both(Pair(1, 2), 3, 5), 4)
    assert set(records_of(of_both)) == {Both, Pair}


@pytest.mark.parametrize("given", [["1", "2"], ["1", "2", "3", "4"]])
def test_a_wrong_number_of_arguments_stays_wrong(given: list[str]) -> None:
    """The compiler reports it with the place of the body."""
    with pytest.raises(TypeError):
        called(of_pair, given, before=(), stride=())
