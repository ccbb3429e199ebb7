"""Passes as objects: ``pass_(mod)`` is a new module; passes of users are functions or classes with a decorator.

@relay.transform.function_pass(opt_level=1)
def rename(function, mod, context):
    return function
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...vm.diagnostics.argument_errors import a_count, a_sequence, a_text, wrong
from ...vm.diagnostics.python_source import here
from ...vm.diagnostics.source import ArgumentError
from ..ir.expr import Function, IRModule, replace
from .pass_context import PassContext, PassInfo, pass_names
from .requirements import with_requirements


class Pass:
    """A pass: a call applies it to a module, after the passes that it requires, with the current context's instruments."""

    def __init__(self, info: PassInfo) -> None:
        self.info = info

    def __call__(self, mod: IRModule) -> IRModule:
        mod = _a_module(mod, f"{self.info.name}: the argument")
        context = PassContext.current()
        if not context.should_run(mod, self.info):
            return mod
        out = self.transform(self.prepare(mod), context)
        context.has_run(out, self.info)
        return out

    def prepare(self, mod: IRModule) -> IRModule:
        """The module after the passes that this one requires."""
        return with_requirements(mod, self.info.required)

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        """The new module."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<pass {self.info.name}, opt_level={self.info.opt_level}>"


class ModulePass(Pass):
    """A pass from a function of the module and the context."""

    def __init__(self, function: Callable[[IRModule, PassContext], IRModule], info: PassInfo) -> None:
        super().__init__(info)
        self._function = function

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        return _a_module(self._function(mod, context), f"{self.info.name}: the result")


def plain_pass(name: str, run: Callable[[IRModule], IRModule], level: int, *required: str) -> Callable[..., Pass]:
    """The class of a pass without options, from a function of the module."""

    def make(*args: Any, **named: Any) -> Pass:
        if args or named:
            raise ArgumentError(f"relay.transform.{name} takes no arguments", here())
        return ModulePass(lambda mod, context: run(mod), PassInfo(level, name, required))

    make.__name__ = name
    make.__doc__ = run.__doc__
    return make


class FunctionPass(Pass):
    """A pass from a function of one function of the module, the module and the context.  The types of the result are inferred."""

    def __init__(self, function: Callable[[Function, IRModule, PassContext], Function], info: PassInfo) -> None:
        super().__init__(info)
        self._function = function

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        functions = {}
        for name, function in mod.functions.items():
            functions[name] = self._function(function, mod, context)
            if not isinstance(functions[name], Function):
                raise wrong(f"{self.info.name}: the result for @{name}", "a Function", functions[name])
        return with_requirements(replace(mod, functions=functions), ("InferType",))


class Sequential(Pass):
    """Passes in order; those that the current context disables, or whose level is above its level, do not run."""

    def __init__(
        self, passes: Sequence[Pass] | None = None, opt_level: int = 0, name: str = "sequential",
        required: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        self.passes = a_sequence(passes or (), "Sequential: the passes", "Sequential([relay.transform.InferType()])")
        for number, each in enumerate(self.passes):
            if not isinstance(each, Pass):
                raise wrong(f"Sequential: pass {number}", "a pass", each, "relay.transform.InferType() is one, with parentheses")
        super().__init__(_info("Sequential", opt_level, name, required))

    def transform(self, mod: IRModule, context: PassContext) -> IRModule:
        for each in self.passes:
            if context.is_enabled(each.info):
                mod = each(mod)
        return mod


def module_pass(
    pass_func: Any = None, opt_level: int | None = None, name: str | None = None, required: Sequence[str] | None = None
) -> Any:
    """The decorator that makes a pass of ``f(mod, context)``, or of a class with the method ``transform_module``."""
    return _decorated(ModulePass, "transform_module", pass_func, opt_level, name, required)


def function_pass(
    pass_func: Any = None, opt_level: int | None = None, name: str | None = None, required: Sequence[str] | None = None
) -> Any:
    """The decorator that makes a pass of ``f(function, mod, context)``, or of a class with the method ``transform_function``."""
    return _decorated(FunctionPass, "transform_function", pass_func, opt_level, name, required)


def _decorated(
    kind: type[ModulePass] | type[FunctionPass], method: str, given: Any, opt_level: Any, name: Any, required: Any
) -> Any:
    decorator = "module_pass" if kind is ModulePass else "function_pass"

    def make(decorated: Any) -> Any:
        if not callable(decorated):
            raise wrong(decorator, "a decorator of a function or a class", decorated)
        info = _info(decorator, opt_level, name or getattr(decorated, "__name__", decorator), required)
        if not isinstance(decorated, type):
            return kind(decorated, info)
        if not callable(getattr(decorated, method, None)):
            raise wrong(f"{decorator}: the class", f"one with the method {method}", decorated)
        return _pass_class(kind, method, decorated, info)

    a_count(opt_level, f"{decorator}: the opt_level", help=f"@relay.transform.{decorator}(opt_level=1)")
    return make if given is None else make(given)


def _pass_class(kind: type[ModulePass] | type[FunctionPass], method: str, decorated: type, info: PassInfo) -> type[Pass]:
    """The class of passes whose function is a method of an instance of ``decorated``; they have the instance's attributes."""

    def start(self: Any, *args: Any, **named: Any) -> None:
        self.instance = decorated(*args, **named)
        kind.__init__(self, getattr(self.instance, method), info)

    def attribute(self: Any, name: str) -> Any:
        if name == "instance":  # not made yet: an unpickled pass, for one
            raise AttributeError(name)
        return getattr(self.instance, name)

    names = {"__init__": start, "__getattr__": attribute, "__doc__": decorated.__doc__, "__module__": decorated.__module__}
    return type(decorated.__name__, (kind,), names)


def _info(who: str, opt_level: Any, name: Any, required: Sequence[str] | None) -> PassInfo:
    level = a_count(opt_level, f"{who}: the opt_level")
    return PassInfo(level, a_text(name, f"{who}: the name"), pass_names(required, f"{who}: required"))


def _a_module(value: Any, what: str) -> IRModule:
    if not isinstance(value, IRModule):
        help = "relay.IRModule.from_expr(function) is one" if isinstance(value, Function) else None
        raise wrong(what, "an IRModule", value, help)
    return value
