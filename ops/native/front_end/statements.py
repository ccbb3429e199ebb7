"""LLVM code of statements: assignments, branches, loops."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir

from . import arrays, nests, ranges, vector_hints
from .calls import Calls
from .llvm.instructions import Builder
from .values import scalars
from .values.machine_types import (
    INT64,
    NOTHING,
    VOID,
    WORD,
    Array,
    Record,
    Tuple,
    Type,
    Value,
    Words,
    decayed,
    has_vectors,
    items,
    joined_type,
)
from .values.scalars import Outside, known_integer
from .variables import Edge, Types, convert, joined
from .vectors import lanewise


class Again(Exception):
    """A loop or a result has more types than was assumed; they are noted, and the function is emitted again."""


class Assumed:
    """Assumptions about a function that its code may refute: the types of variables at the heads of loops, and its result."""

    def __init__(self, result: Type) -> None:
        self.loops: dict[tuple[ast.stmt, tuple[int, ...]], Types] = {}
        self.result, self.has_result = result, False


class _Loop:
    """A loop that is being emitted: the variables at its head, those that it assigns, the edges of ``continue`` and ``break``."""

    def __init__(self, node: ast.stmt, head: Edge, assigned: frozenset[str]) -> None:
        self.node, self.head, self.assigned = node, head, assigned
        self.continues: list[Edge] = []
        self.breaks: list[Edge] = []


class Statements(Calls):
    """The code of the statements of one function.  ``is_nest``: whether its text is generated, a loop nest (see ``nests``)."""

    def __init__(
        self, function: ir.Function, names: dict[str, Any], local: frozenset[str], call: Callable[..., Value], assumed: Assumed,
        is_nest: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(function, names, local, call)
        self.assumed, self.is_nest = assumed, is_nest
        self._loops: list[_Loop] = []
        #: The iterations of the unrolled loops around: a loop inside has types of its own in each.
        self._iterations: tuple[int, ...] = ()
        #: Whether the loop around is of vectors that fill registers (``vector_hints.FILLED``).
        self.fills_registers = False

    def body(self, statements: list[ast.stmt]) -> None:
        """Emit statements; those that cannot be reached are left out."""
        for statement in statements:
            if self.builder.block.is_terminated:
                return
            emit = getattr(self, f"_{type(statement).__name__}", None)
            if emit is None:
                raise Outside(f"the statement {type(statement).__name__}")
            try:
                emit(statement)
            except Outside as error:
                raise error if " (line " in str(error) else Outside(f"{error} (line {statement.lineno})") from None

    def finish(self) -> None:
        """End the function: without a return it returns nothing."""
        if not self.builder.block.is_terminated:
            self._return(VOID)
        self.variables.allocate.branch(self.start)

    # ---- simple statements -----------------------------------------------------------------------------------------------------

    def _Pass(self, node: ast.Pass) -> None:
        pass

    def _Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        if isinstance(node.value, ast.Name) and isinstance(value.type, Tuple) and value.type.is_list:
            raise Outside(f"a second name of the list {node.value.id}")
        for target in node.targets:
            self._assign(target, value)

    def _AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, self.value(node.value))

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            if value.type == NOTHING:
                raise Outside(f"{target.id} = None")
            self.variables.set(self.builder, target.id, value)
        elif isinstance(target, ast.Tuple):
            if not isinstance(value.type, Tuple) or len(value.type.items) != len(target.elts):
                raise Outside(f"the assignment to {ast.unparse(target)}")
            for each, item in zip(target.elts, items(value), strict=True):
                self._assign(each, item)
        elif isinstance(target, ast.Attribute):
            arrays.store_field(self.builder, self._record(target), target.attr, value)
        elif isinstance(target, ast.Subscript) and (place := self.register(target.value, target.slice)) is not None:
            self._set_item(*place, value)
        elif isinstance(target, ast.Subscript):
            self.store(self.value(target.value), self.indices(target.slice), value)
        else:
            raise Outside(f"the assignment to {ast.unparse(target)}")

    def _set_item(self, name: str, at: int, value: Value) -> None:
        kind = self.variables.types[name]
        if not isinstance(kind, Tuple) or not kind.is_list:
            raise Outside(f"an assignment to an item of {name}, which is no list of this function")
        self.variables.set_item(self.builder, name, at, value)

    def _record(self, target: ast.Attribute) -> Value:
        base = self.value(target.value)
        if not isinstance(base.type, Record):
            raise Outside(f"the assignment to {ast.unparse(target)}")
        return base

    def store(self, base: Value, indices: list[Value], value: Value) -> None:
        """Write an element of an array, or a word of an array field."""
        if isinstance(base.type, Array):
            arrays.store_element(self, base, indices, value)
        elif isinstance(base.type, Words):
            (index,) = indices
            self.builder.store(self.word(value), arrays.word_pointer(self.builder, base, index))
        else:
            raise Outside(f"an assignment to an element of {base.type}")

    def _AugAssign(self, node: ast.AugAssign) -> None:
        b, target = self.builder, node.target
        if isinstance(target, ast.Name):
            before = self.value(ast.copy_location(ast.Name(target.id, ast.Load()), target))
            self.variables.set(b, target.id, self._changed(node, before))
        elif isinstance(target, ast.Attribute):
            record = self._record(target)
            arrays.store_field(b, record, target.attr, self._changed(node, arrays.load_field(b, record, target.attr)))
        elif (place := self.register(target.value, target.slice)) is not None:
            self._set_item(*place, self._changed(node, self.variables.get_item(b, *place)))
        else:
            base, indices = self.value(target.value), self.indices(target.slice)
            self.store(base, indices, self._changed(node, self.element(base, indices)))

    def _changed(self, node: ast.AugAssign, before: Value) -> Value:
        """The value after an assignment such as ``x += 1``; numpy would change a vector in place, under all its names."""
        if lanewise.is_vector(before):
            raise Outside(f"{ast.unparse(node)} of a vector, which is written in full: a = a + b")
        return self.binary(type(node.op), before, self.value(node.value))

    def _Return(self, node: ast.Return) -> None:
        self._return(VOID if node.value is None else self.value(node.value))

    def _return(self, value: Value) -> None:
        value = decayed(value)
        kind = value.type
        if self.assumed.has_result and kind != self.assumed.result:
            both = joined_type(kind, self.assumed.result)
            if both is None:
                raise Outside(f"results of {kind} and of {self.assumed.result}")
            kind = both
        if kind != self.assumed.result:
            self.assumed.result, self.assumed.has_result = kind, True
            raise Again
        self.assumed.has_result = True
        parts, b = convert(self.builder, value, kind).parts, self.builder
        if not parts:
            b.ret_void()
        elif len(parts) == 1:
            b.ret(parts[0])
        else:
            whole = ir.Constant(ir.LiteralStructType([part.type for part in parts]), ir.Undefined)
            for number, part in enumerate(parts):
                whole = b.insert_value(whole, part, number)
            b.ret(whole)

    # ---- branches --------------------------------------------------------------------------------------------------------------

    def _If(self, node: ast.If) -> None:
        b, test = self.builder, self.value(node.test)
        if (taken := self.taken(test)) is not None:
            self.body(node.body if taken else node.orelse)
            return
        yes, no = self.block("then"), self.block("else")
        b.cbranch(scalars.truth(b, test).scalar, yes, no)
        before, ways = self.variables.edge(b.block), list[Edge]()
        for block, statements in ((yes, node.body), (no, node.orelse)):
            b.position_at_end(block)
            self.variables.follow(before)
            self.body(statements)
            ways += self._edge()
        self._join(ways)

    def _edge(self) -> list[Edge]:
        """The end of the way that was just emitted, if it has one."""
        return [] if self.builder.block.is_terminated else [self.variables.edge(self.builder.block)]

    def _join(self, ways: list[Edge]) -> None:
        """Continue where ways meet.  Without ways, the code after them is not reached."""
        if not ways:
            return
        types, b, variables = joined([way.types for way in ways]), self.builder, self.variables
        end = self.block("join")
        for number, way in enumerate(ways):
            b.position_at_end(way.block)
            variables.follow(way)
            variables.retype(b, types)
            ways[number] = variables.edge(b.block)
        kept = {name: k for name, k in ways[0].kept.items() if all(way.kept.get(name) is k for way in ways)}
        for way in ways:
            b.position_at_end(way.block)
            variables.follow(way)
            variables.settle(b, [name for name in way.kept if name not in kept])
            b.branch(end)
        b.position_at_end(end)
        variables.follow(Edge(end, types, kept))

    # ---- loops -----------------------------------------------------------------------------------------------------------------

    def _begin_loop(self, node: ast.stmt) -> _Loop:
        """Convert the variables to the types that they are assumed to have at the head of a loop; NOTHING: they have no value."""
        wider = self.assumed.loops.get((node, self._iterations), {})
        types = {name: wider.get(name, kind) for name, kind in self.variables.types.items()}
        self.variables.retype(self.builder, {name: kind for name, kind in types.items() if kind != NOTHING})
        assigned = _assigned(node, self.is_nest)
        self.variables.settle(self.builder, sorted(assigned))
        for name in assigned:
            self.variables.kept.pop(name, None)
        loop = _Loop(node, Edge(self.builder.block, dict(self.variables.types), dict(self.variables.kept)), assigned)
        self._loops.append(loop)
        return loop

    def _to_head(self, loop: _Loop) -> Types:
        """Give the variables their types at the head of a loop; the types of those that the loop made."""
        made = {name: kind for name, kind in self.variables.types.items() if name not in loop.head.types}
        for name, kind in loop.head.types.items():
            here = self.variables.types.get(name)
            both = None if here is None else joined_type(kind, here)
            if both is None and has_vectors(kind):  # of a loop before, with other lanes
                both = NOTHING
            if both is None:
                raise Outside(f"the variable {name} has two types, {kind} and {here}")
            if both != kind:
                self.assumed.loops.setdefault((loop.node, self._iterations), {})[name] = both
                raise Again
        self.variables.retype(self.builder, {**self.variables.types, **loop.head.types})
        self.variables.settle(self.builder, sorted(loop.assigned))
        return made

    def _end_body(self, loop: _Loop, latch: ir.Block) -> Types:
        """Branch from the ends of a loop's body to ``latch``; the types of the variables that the loop made."""
        made: Types = {}
        for way in [*self._edge(), *loop.continues]:
            self.builder.position_at_end(way.block)
            self.variables.follow(way)
            made = joined([made, self._to_head(loop)])
            self.builder.branch(latch)
        return made

    def _end_loop(self, loop: _Loop, end: ir.Block | None, made: Types) -> None:
        """Continue after a loop: where its condition fails, and where it is left."""
        self._loops.pop()
        ways = [] if end is None else [Edge(end, {**loop.head.types, **made}, loop.head.kept)]
        self._join([*ways, *loop.breaks])

    def _Continue(self, node: ast.Continue) -> None:
        self._leave(self._loops[-1].continues)

    def _Break(self, node: ast.Break) -> None:
        self._leave(self._loops[-1].breaks)

    def _leave(self, edges: list[Edge]) -> None:
        """Note an edge of the current way, and go on in a block that nothing reaches."""
        edges += self._edge()
        self.builder.position_at_end(self._nowhere())

    def _nowhere(self) -> ir.Block:
        block = self.block("nowhere")
        Builder(block).unreachable()
        return block

    def _While(self, node: ast.While) -> None:
        if node.orelse:
            raise Outside("else after a loop")
        b, head, inside = self.builder, self.block("head"), self.block("body")
        loop = self._begin_loop(node)
        b.branch(head)
        b.position_at_end(head)
        forever = isinstance(node.test, ast.Constant) and bool(node.test.value)
        end = None if forever else self.block("end")
        if end is None:
            b.branch(inside)
        else:
            b.cbranch(scalars.truth(b, self.value(node.test)).scalar, inside, end)
        b.position_at_end(inside)
        self.variables.follow(loop.head)
        self.body(node.body)
        made = self._end_body(loop, head)
        self._end_loop(loop, end, made)

    def _For(self, node: ast.For) -> None:
        if node.orelse or not isinstance(node.target, ast.Name):
            raise Outside(f"the loop over {ast.unparse(node.target)}")
        if isinstance(node.iter, ast.Call) and isinstance(node.iter.func, ast.Name):
            hints = self._loop_hints(node.iter.func.id)
            if hints is not None:
                if any(getattr(self.names.get(name), "__interleaved__", False) for name in _called(node.body)):
                    hints = vector_hints.interleaved_loop(hints)
                bounds = [self.value(a) for a in node.iter.args]
                for part, of_part, elements in self._parts(node, bounds, hints):
                    self._for_range(node, node.target.id, part, of_part, elements)
                return
        if _has_ways_out(node):
            raise Outside(f"a way out of the unrolled loop over {ast.unparse(node.iter)}")
        around = self._iterations
        for number, item in enumerate(self.unrolled(node.iter)):
            self._iterations = (*around, number)
            self.variables.set(self.builder, node.target.id, item)
            self.body(node.body)
        self._iterations = around

    def _loop_hints(self, called: str) -> vector_hints.LoopHints | None:
        """The properties of a loop over the result of this function; None if it is no range."""
        if called == "range":
            return ()
        function = self.names.get(called)
        hints = vector_hints.RANGES.get(function) if callable(function) else None
        return None if hints is None else hints()

    def _parts(
        self, node: ast.For, bounds: list[Value], hints: vector_hints.LoopHints
    ) -> Iterator[tuple[list[Value], vector_hints.LoopHints, int]]:
        """The loops that a loop over a range becomes: bounds and hints of each, and the elements of an iteration."""
        if not hints and self.is_nest and ranges.rounds(node, self.variables.types):
            yield from ((*part, 1) for part in ranges.parts_of_vectors(self.builder, bounds))
        elif self.is_nest and ranges.is_of_words(node, self.variables.types, hints):
            yield from ranges.parts_of_words(self.builder, bounds, hints)
        else:
            yield bounds, hints, 1

    def _for_range(self, node: ast.For, name: str, bounds: list[Value], hints: vector_hints.LoopHints, elements: int = 1) -> None:
        """A loop over a range: a counter of its own, which the body cannot change; ``elements``: how many an iteration takes."""
        b = self.builder
        if self.is_nest and nests.has_loops(node):
            hints = (*hints, vector_hints.NOT_UNROLLED)
            if self._loops and nests.has_rows(node):
                self._hide_rows(node)
        kind, start, stop, step = ranges.bounds_of(b, bounds)
        known = known_integer(step)
        counter = self.stack(WORD)
        b.store(start, counter)
        if known is None:  # count the steps, so that LLVM knows their number
            left = self.stack(WORD)
            b.store(ranges.steps(b, start, stop, step.scalar), left)
        loop, before = self._begin_loop(node), len(b.function.blocks)
        head, inside, latch, end = (self.block(n) for n in ("head", "body", "latch", "end"))
        b.branch(head)
        b.position_at_end(head)
        at = b.load(counter)
        if known is None:
            b.cbranch(b.icmp_signed(">", b.load(left), WORD(0)), inside, end)
        else:
            less = b.icmp_signed if kind.signed else b.icmp_unsigned
            b.cbranch(less("<" if known > 0 else ">", at, stop), inside, end)
        b.position_at_end(inside)
        self.variables.follow(loop.head)
        around, self.fills_registers = self.fills_registers, any(hint[0] == vector_hints.FILLED for hint in hints)
        for element in range(elements):
            self.variables.set(b, name, Value(kind, (b.add(at, WORD(element), flags=["nsw"]) if element else at,)))
            self.body(node.body)
        self.fills_registers = around
        made = self._end_body(loop, latch)
        b.position_at_end(latch)
        b.store(b.add(b.load(counter), step.scalar, flags=["nsw"] if kind.signed else ["nuw"]), counter)
        if known is None:
            b.store(b.sub(b.load(left), WORD(1), flags=["nsw"]), left)
        back = b.branch(head)
        if hints:
            ranges.describe_loop(b.module, back, hints, b.function.blocks[before:])
        self._end_loop(loop, end, made)

    def _hide_rows(self, node: ast.For) -> None:
        """Hide from LLVM the computation of the indices at which the rows of a loop begin."""
        for name in nests.indices_read(node):
            kind = self.variables.types.get(name)
            if kind == INT64:
                hidden = nests.hidden(self.builder, self.variables.get(self.builder, name).scalar)
                self.variables.set(self.builder, name, Value(kind, (hidden,)))


@functools.lru_cache(maxsize=1024)
def _assigned(loop: ast.stmt, is_nest: bool) -> frozenset[str]:
    """The variables that a loop assigns; in a nest also those that are hidden from LLVM (see ``nests``)."""
    names = {n.id for n in ast.walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    rows = [n for n in ast.walk(loop) if is_nest and n is not loop and isinstance(n, ast.For) and nests.has_rows(n)]
    return frozenset(names.union(*map(nests.indices_read, rows)))


@functools.lru_cache(maxsize=1024)
def _has_ways_out(node: ast.For) -> bool:
    """Whether ``break`` or ``continue`` is in a loop."""
    return any(isinstance(n, (ast.Break, ast.Continue)) for n in ast.walk(node))


def _called(body: list[ast.stmt]) -> Iterator[str]:
    """The names of the functions that statements call outside loops."""
    for statement in body:
        if not isinstance(statement, (ast.For, ast.While)):
            calls = (n.func for n in ast.walk(statement) if isinstance(n, ast.Call))
            yield from (called.id for called in calls if isinstance(called, ast.Name))
