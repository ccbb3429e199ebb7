"""A random program as a module."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import relayvm as relay
from relayvm.ops.core.op import get
from relayvm.ops.core.tensor_types import FuncType, TensorType, TupleType, Type
from relayvm.shape_funcs.symbolic.dim import sym

from .program import Apply, Block, Choice, Loop, Operation, Program, Repeat, Statement, Value


class Assembly:
    """One program's functions."""

    def __init__(self, program: Program) -> None:
        self.program, self.functions = program, {}
        self.module = self._module()

    def type_of(self, name: str, sizes: str = "any") -> TensorType:
        """The type that a parameter for this value says."""
        value = self.program.values[name]
        return TensorType.of(tuple(_dim(value, n, sizes) for n in value.array.shape), value.array.dtype.name)

    def _module(self) -> Any:
        scope: dict[str, Any] = {}
        parameters = []
        for name in self.program.inputs():
            value = self.program.values[name]
            if name in self.program.constants and not value.array.ndim:
                scope[name] = relay.const(value.array)
                continue
            scope[name] = relay.var(name, type_annotation=self.type_of(name, self.program.sizes))
            parameters.append(scope[name])
        body = self.block(self.program.body, scope, end=relay.Tuple)
        return relay.IRModule({"main": relay.Function(parameters, body), **self.functions})

    def block(self, block: Block, outer: dict[str, Any], *, end: Any = None) -> Any:
        """The chain of lets; ``end`` makes one of the results."""
        scope, lets = dict(outer), []
        for s in block.statements:
            self.bind(s, self.value(s, scope), scope, lets)
        found = [scope[n] for n in block.results]
        result = end(found) if end else found[0] if len(found) == 1 else relay.Tuple(found)
        for var, value in reversed(lets):
            result = relay.Let(var, value, result)
        return result

    def bind(self, s: Statement, value: Any, scope: dict[str, Any], lets: list[Any]) -> None:
        """Bind the targets, field by field where they are several."""
        if len(s.targets) == 1 and not (isinstance(s, Operation) and s.fields):
            scope[s.targets[0]] = relay.var(s.targets[0])
            lets.append((scope[s.targets[0]], value))
            return
        whole = relay.var(f"t_{s.targets[0]}")
        lets.append((whole, value))
        nested = grouped(list(s.targets), s.targets[0], list) if isinstance(s, (Choice, Apply)) else list(s.targets)
        for k, name in enumerate(nested):
            if isinstance(name, str):
                scope[name] = relay.var(name)
                lets.append((scope[name], relay.TupleGetItem(whole, k)))
                continue
            inner = relay.var(f"{whole.name}_{k}")
            lets.append((inner, relay.TupleGetItem(whole, k)))
            for j, field in enumerate(name):
                scope[field] = relay.var(field)
                lets.append((scope[field], relay.TupleGetItem(inner, j)))

    def value(self, s: Statement, scope: dict[str, Any]) -> Any:
        """The expression of a statement."""
        if isinstance(s, Operation):
            op = get(s.op)
            args = [relay.Tuple([scope[n] for n in a]) if isinstance(a, tuple) else scope[a] for a in s.args]
            return relay.Call(op, args, op.attrs(**s.attrs))
        if isinstance(s, Choice):
            end = functools.partial(grouped, name=s.targets[0], make=relay.Tuple)
            branches = (self.block(b, scope, end=end) for b in (s.then, s.otherwise))
            return relay.If(scope[s.condition], *branches)
        if isinstance(s, Apply):
            return self.applied(s, scope)
        if isinstance(s, Repeat):
            return self.repeated(s, scope)
        assert isinstance(s, Loop)
        return self.loop(s, scope)

    def applied(self, s: Apply, scope: dict[str, Any]) -> Any:
        """A function and its call."""
        passed = s.passed()
        params = {n: relay.var(n, type_annotation=self.type_of(n)) for n in passed}
        result = grouped([self.type_of(n) for n in s.block.results], s.targets[0], lambda types: TupleType(tuple(types)))
        end = functools.partial(grouped, name=s.targets[0], make=relay.Tuple)
        function = relay.Function(list(params.values()), self.block(s.block, {**scope, **params}, end=end), result)
        arguments = [scope[n] for n in passed]
        if s.how == "global":
            return relay.Call(self.define(function), arguments)
        closure = relay.var(f"f_{s.targets[0]}")
        if s.how == "closure":
            return relay.Let(closure, function, relay.Call(closure, arguments))
        g = relay.var("g", type_annotation=FuncType(tuple(self.type_of(n) for n in passed), result))
        again = [relay.var(n, type_annotation=self.type_of(n)) for n in passed]
        hand = self.define(relay.Function([g, *again], relay.Call(g, again), result))
        return relay.Let(closure, function, relay.Call(hand, [closure, *arguments]))

    def define(self, function: Any) -> Any:
        """The function, as one of the module."""
        name = f"f{len(self.functions)}"
        self.functions[name] = function
        return relay.GlobalVar(name)

    def loop(self, s: Loop, scope: dict[str, Any]) -> Any:
        """A function that counts down, and its call."""
        name = f"loop_{s.targets[0]}"
        counter = relay.var("i", type_annotation=self.type_of(s.counter))
        ty = _open(self.type_of(s.carried))
        carried = relay.var("x", type_annotation=ty)
        others = {n: relay.var(n, type_annotation=self.type_of(n)) for n in s.others()}
        dtype = self.program.values[s.counter].array.dtype

        def again(x: Any) -> Any:
            return relay.Call(relay.GlobalVar(name), [counter - relay.const(np.array(1, dtype)), x, *others.values()])

        def stepped(x: Any) -> Any:
            for step in s.steps:
                op = get(step.op)
                args = [x] if step.other is None else [x, x if step.other == "@" else others[step.other]]
                x = relay.Call(op, [relay.Tuple(args)] if step.joined else args, op.attrs(**step.attrs))
            return x

        more = relay.Call(get("greater"), [counter, relay.const(np.array(0, dtype))])
        body = relay.If(more, again(stepped(carried)) if s.tail else stepped(again(carried)), carried)
        self.functions[name] = relay.Function([counter, carried, *others.values()], body, ty)
        return relay.Call(relay.GlobalVar(name), [scope[s.counter], scope[s.carried], *(scope[n] for n in s.others())])

    def repeated(self, s: Repeat, scope: dict[str, Any]) -> Any:
        """A function that counts down, with a block in it, and its call."""
        name = f"repeat_{s.targets[0]}"
        types = [_open(self.type_of(n)) for n in s.carried]
        counter = relay.var("i", type_annotation=self.type_of(s.counter))
        carried = {n: relay.var(n, type_annotation=ty) for n, ty in zip(s.carried, types, strict=True)}
        others = {n: relay.var(n, type_annotation=self.type_of(n)) for n in s.others()}
        dtype = self.program.values[s.counter].array.dtype

        def again(values: list[Any]) -> Any:
            less = counter - relay.const(np.array(1, dtype))
            return relay.Call(relay.GlobalVar(name), [less, *values, *others.values()])

        if s.tail:
            more = self.block(s.block, {**carried, **others}, end=again)
        else:
            whole = relay.var("whole")
            fields = [relay.TupleGetItem(whole, k) for k in range(len(types))] if len(types) > 1 else [whole]
            named = {n: relay.var(n) for n in s.carried}
            more = self.block(s.block, {**named, **others})
            for n, field in reversed(list(zip(s.carried, fields, strict=True))):
                more = relay.Let(named[n], field, more)
            more = relay.Let(whole, again(list(carried.values())), more)
        end = list(carried.values())
        condition = relay.Call(get("greater"), [counter, relay.const(np.array(0, dtype))])
        body = relay.If(condition, more, end[0] if len(end) == 1 else relay.Tuple(end))
        self.functions[name] = relay.Function([counter, *carried.values(), *others.values()], body, _type(types))
        return relay.Call(relay.GlobalVar(name), [scope[n] for n in (s.counter, *s.carried, *s.others())])


def grouped(fields: list[Any], name: str, make: Callable[[list[Any]], Any]) -> Any:
    """A single field unchanged; several fields as a tuple, some of them in a nested tuple, by the number in ``name``."""
    if len(fields) == 1:
        return fields[0]
    form = int(name[1:]) % 3
    if form == 1:
        return make([make(fields[:-1]), fields[-1]])
    return make([fields[0], make(fields[1:])]) if form == 2 else make(fields)


def _dim(value: Value, n: int, sizes: str) -> Any:
    if value.known or sizes == "static":
        return n
    return relay.Any() if sizes == "any" else sym(f"n{n}")


def _open(ty: TensorType) -> TensorType:
    return TensorType.of(tuple(relay.Any() for _ in ty.shape), ty.dtype)


def _type(types: list[TensorType]) -> Type:
    return types[0] if len(types) == 1 else TupleType(tuple(types))
