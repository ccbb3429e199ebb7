"""Deep and long programs: no RecursionError, or a diagnostic that names a limit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

import relayvm as relay

from ...programs import HEADER

pytestmark = pytest.mark.many

DEPTH = 30_000
LISTS = "type List { Cons(float32, List), Nil }\n"


def _main(body: str, types: str = "") -> str:
    return f"{HEADER}{types}def @main(%x: float32, %c: bool) {{ {body} }}"


@pytest.mark.parametrize(
    ("left", "right", "depth"),
    [("(", ")", DEPTH), ("{", "}", DEPTH // 5), ("--", "", DEPTH // 5)],
    ids=["parentheses", "blocks", "signs"],
)
def test_nested_deeply(left: str, right: str, depth: int) -> None:
    mod = relay.parse(_main(left * depth + "1f" + right * depth))
    assert relay.structural_equal(mod, relay.parse(_main("1f")))


@pytest.mark.parametrize(
    "text", ["(" * DEPTH, "{" * DEPTH, "1f" + ")" * DEPTH, "[" * DEPTH], ids=["open", "blocks", "closed", "lists"]
)
def test_mistakes_nested_deeply(text: str) -> None:
    with pytest.raises(relay.ParseError, match=r"expected |must end in an expression") as caught:
        relay.parse(_main(text))
    assert len(caught.value.diagnostics) <= 2 and len(str(caught.value)) < 4000


def test_tuples_of_500_levels() -> None:
    mod = relay.parse(_main("(" * 500 + "%x" + ",)" * 500))
    assert relay.structural_equal(mod, relay.parse(relay.astext(mod)))
    with pytest.raises(relay.TypeCheckError, match="a tuple is nested 65 deep; at most 64 is possible"):
        relay.transform.InferType()(mod)


PROGRAMS = {
    "calls": _main("exp(" * 1200 + "%x" + ")" * 1200),
    "lets": _main("".join(f"let %y{k} = exp(%x); " for k in range(1200)) + "%x"),
    "branches": _main("if (%c) {" * 1000 + "%x" + "} else { %x }" * 1000),
    "functions": _main("fn (%y: float32) {" * 1000 + "%x" + "}" * 1000),
    "references": _main("ref(" * 1000 + "%x" + ")" * 1000),
    "matches": _main("match (Nil) { _ => " * 1000 + "%x" + "}" * 1000, LISTS),
}
#: Walks and passes: each takes a module.
WALKS: dict[str, Callable[[relay.IRModule], Any]] = {
    "text": lambda mod: relay.parse(relay.astext(mod)),
    "repr": lambda mod: repr(mod["main"]),
    "hash": relay.structural_hash,
    "visitor": lambda mod: relay.ExprVisitor().visit(mod["main"]),
    "mutator": lambda mod: relay.ExprMutator().visit(mod["main"]),
    "free_vars": lambda mod: relay.analysis.free_vars(mod["main"]),
    "well_formed": relay.analysis.well_formed,
    **{
        name: getattr(relay.transform, name)()
        for name in ("ToANormalForm", "InferType", "FoldConstant", "EliminateCommonSubexpr", "DeadCodeElimination", "FuseOps")
    },
}


@functools.cache
def _parsed(program: str) -> relay.IRModule:
    """The module of a program, parsed once: no walk changes the module that it takes."""
    return relay.parse(PROGRAMS[program])


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_walks(program: str, walk: str) -> None:
    mod = _parsed(program)
    try:
        WALKS[walk](mod)
    except relay.TypeCheckError as error:
        assert ("nested" in str(error) and "at most" in str(error)) or "nested more than" in str(error)
        assert program not in ("calls", "lets")


def test_the_text_of_nested_blocks_grows_with_their_number() -> None:
    sizes = [len(relay.astext(relay.parse(_main("if (%c) {" * n + "%x" + "} else { %x }" * n)))) for n in (500, 1000)]
    assert sizes[1] < 2.2 * sizes[0]
