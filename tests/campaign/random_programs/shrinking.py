"""Simpler programs: any statement can go, for numpy knows its results, which then are inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .program import Apply, Block, Choice, Loop, Operation, Program, Repeat, Statement, Value, blocks


def simpler(program: Program) -> Iterator[Program]:
    """Programs with fewer statements, results, constants; those that leave out the most come first."""
    yield from _live(program)
    body = program.body
    if len(body.results) > 1:
        for name in body.results:
            yield _with(program, Block(body.statements, (name,)))
    for names in _without_some(body):
        yield _with(program, names)
    for k, s in enumerate(body.statements):
        for new, names in _opened(s):
            # the branch that is not taken gives other values
            if all(same(program.values[t], program.values[r]) for t, r in names.items()):
                yield _with(program, _replaced(body, k, new, names))
        for other in _simpler_statements(s):
            yield _with(program, Block((*body.statements[:k], other, *body.statements[k + 1 :]), body.results))
    if program.constants:
        yield replace(program, constants=frozenset())
        for name in sorted(program.constants):
            yield replace(program, constants=program.constants - {name})
    if program.sizes != "any":
        yield replace(program, sizes="any")


def _with(program: Program, body: Block) -> Program:
    return replace(program, body=body)


def _live(program: Program) -> Iterator[Program]:
    """Without statements that nobody uses."""
    used, kept = set(program.body.results), []
    for s in reversed(program.body.statements):
        if used & set(s.targets):
            kept.append(s)
            used |= set(s.uses())
    if len(kept) < len(program.body.statements):
        yield _with(program, Block(tuple(reversed(kept)), program.body.results))


def _without_some(block: Block) -> Iterator[Block]:
    """Without half of the statements, a quarter, and so on."""
    size = (len(block.statements) + 1) // 2
    while size:
        for at in range(0, len(block.statements), size):
            yield Block(block.statements[:at] + block.statements[at + size :], block.results)
        size //= 2


def _opened(s: Statement) -> Iterator[tuple[tuple[Statement, ...], dict[str, str]]]:
    """The statements of a block in place of the statement that holds it, and which names stand for its targets."""
    for inner in blocks(s):
        yield inner.statements, dict(zip(s.targets, inner.results, strict=True))


def same(a: Value, b: Value) -> bool:
    """Whether one value can stand for the other."""
    return a.kind == b.kind and a.array.shape == b.array.shape and a.array.tobytes() == b.array.tobytes()


def _replaced(block: Block, k: int, new: tuple[Statement, ...], names: dict[str, str]) -> Block:
    rest = tuple(renamed(s, names) for s in block.statements[k + 1 :])
    return Block((*block.statements[:k], *new, *rest), tuple(names.get(n, n) for n in block.results))


def _simpler_statements(s: Statement) -> Iterator[Statement]:
    if isinstance(s, Apply):
        if s.how != "global":
            yield replace(s, how="global", captured=())
        if len(s.block.results) == 1:
            yield from (replace(s, block=b) for b in _without_some(s.block))
    if isinstance(s, Repeat):
        yield from (replace(s, block=b) for b in _without_some(s.block))
    if isinstance(s, Choice):
        yield from (replace(s, then=b) for b in _without_some(s.then))
        yield from (replace(s, otherwise=b) for b in _without_some(s.otherwise))
    for k, inner in enumerate(blocks(s)):
        for j, nested in enumerate(inner.statements):
            for other in _simpler_statements(nested):
                changed = Block((*inner.statements[:j], other, *inner.statements[j + 1 :]), inner.results)
                if isinstance(s, (Apply, Repeat)):
                    yield replace(s, block=changed)
                elif isinstance(s, Choice):
                    yield replace(s, then=changed) if k == 0 else replace(s, otherwise=changed)


def renamed(s: Statement, names: dict[str, str]) -> Statement:
    """The statement with other names for its operands."""
    at = lambda n: names.get(n, n)  # noqa: E731
    if isinstance(s, Operation):
        return replace(s, args=tuple(tuple(map(at, a)) if isinstance(a, tuple) else at(a) for a in s.args))
    if isinstance(s, Repeat):
        carried = tuple(map(at, s.carried))
        return replace(s, counter=at(s.counter), carried=carried, block=_inside(s.block, names))
    if isinstance(s, Choice):
        return replace(s, condition=at(s.condition), then=_inside(s.then, names), otherwise=_inside(s.otherwise, names))
    if isinstance(s, Apply):
        return replace(s, block=_inside(s.block, names), captured=tuple(map(at, s.captured)))
    assert isinstance(s, Loop)
    steps = tuple(replace(t, other=None if t.other is None else at(t.other)) for t in s.steps)
    return replace(s, counter=at(s.counter), carried=at(s.carried), steps=steps)


def _inside(block: Block, names: dict[str, str]) -> Block:
    return Block(tuple(renamed(s, names) for s in block.statements), tuple(names.get(n, n) for n in block.results))
