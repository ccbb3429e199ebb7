"""``AnnotateTarget``: marks around the calls that compilers support, as the attribute ``target.<compiler>`` of an operator says.

@relay.op.register_op_attr("tanh", "target.npu")
def supported(call):
    return True

exp(tanh(%x))   ->   %0 = annotation.compiler_begin(%x, compiler="npu");
                     %1 = annotation.compiler_end(tanh(%0), compiler="npu");
                     %2 = annotation.compiler_begin(%1, compiler="default");
                     annotation.compiler_end(exp(%2), compiler="default")
"""

from __future__ import annotations

from typing import Any

from ....ops.core.op import Op, OpPattern
from ....ops.defs.machine.machine_ops import COMPILER_BEGIN, COMPILER_END, REGION_MARKS, CompilerAttrs
from ....vm.diagnostics.argument_errors import a_sequence, a_text
from ...ir.expr import Call, Expr, Function, IRModule, Tuple, TupleGetItem, replace
from ...ir.visitor import children, post_order, rewrite, with_children
from ..inlining import graph_of, is_for_compiler
from ..registered.op_attributes import attribute
from .region_set import AnnotatedRegionSet, region_set

#: The compiler of calls that no given compiler supports: this one.
DEFAULT = "default"


def checked_targets(targets: Any) -> tuple[str, ...]:
    """Names of compilers, or one name.  Raises ArgumentError."""
    given = [targets] if isinstance(targets, str) else a_sequence(targets, "AnnotateTarget: the targets", '["npu"]')
    return tuple(a_text(name, "AnnotateTarget: a target") for name in given)


def annotate_target(mod: IRModule, targets: tuple[str, ...], non_calls: bool) -> IRModule:
    """The module with marks; regions that it has keep theirs, except those of the compiler ``default``."""
    functions = {}
    for name, f in mod.functions.items():
        kept = f.is_primitive or is_for_compiler(f)
        functions[name] = f if kept else _Annotator(targets, non_calls, without_marks(graph_of(f, mod), DEFAULT)).function()
    return replace(mod, functions=functions)


def without_marks(function: Function, compiler: str) -> Function:
    """The function without the marks of a compiler."""

    def visit(node: Expr) -> Expr:
        marked = isinstance(node, Call) and node.op in REGION_MARKS and node.attrs.compiler == compiler
        return node.args[0] if marked and isinstance(node, Call) else node

    out = rewrite(function, visit)
    assert isinstance(out, Function)
    return out


def marked(op: Op, value: Expr, compiler: str) -> Call:
    """The value with a mark."""
    return Call(op, (value,), CompilerAttrs(compiler), span=value.span, ty=value.ty)


class _Annotator:
    """The annotator of one function, a graph."""

    def __init__(self, targets: tuple[str, ...], non_calls: bool, function: Function) -> None:
        self.targets, self.non_calls, self.root = targets, non_calls, function
        self.regions: AnnotatedRegionSet = region_set(function)
        self.new: dict[int, Expr] = {}
        self.target: dict[int, str] = {}  # the compiler of a new region, by the old expression

    def function(self) -> Function:
        """The function with marks."""
        inside = _within_compiler_functions(self.root)
        for node in post_order(self.root):
            self.new[id(node)] = node if id(node) in inside else self._node(node)
        out = self.new[id(self.root)]
        assert isinstance(out, Function)
        return out

    def _node(self, node: Expr) -> Expr:
        target = None if self.regions.get_region(node) is not None else self._target(node)
        if target is None:
            return with_children(node, tuple(map(self._ended, children(node))))
        self.target[id(node)] = target
        callee = len(children(node)) - len(node.args) if isinstance(node, Call) else 0  # a function is no argument
        parts = [self.new[id(c)] for c in children(node)[:callee]]
        parts += [marked(COMPILER_BEGIN, self._ended(c), target) for c in children(node)[callee:]]
        return with_children(node, tuple(parts))

    def _ended(self, child: Expr) -> Expr:
        new, target = self.new[id(child)], self.target.get(id(child))
        return new if target is None else marked(COMPILER_END, new, target)

    def _target(self, node: Expr) -> str | None:
        """The compiler whose region the expression becomes; None if it becomes none."""
        if isinstance(node, Call):
            if isinstance(node.op, Op):
                return None if node.op.pattern is OpPattern.MACHINE else self._first_that_takes(node, node.op)
            name = node.op.attrs.get("Composite") if isinstance(node.op, Function) else None
            prefix = name.partition(".")[0] if isinstance(name, str) else None
            return prefix if prefix in self.targets else None
        if isinstance(node, (Tuple, TupleGetItem)) and self.non_calls:
            found = {self.target.get(id(child)) for child in children(node)}
            return (found.pop() if len(found) == 1 else None) or DEFAULT
        return None

    def _first_that_takes(self, call: Call, op: Op) -> str:
        for target in self.targets:
            supported = attribute(op.name, f"target.{target}")
            if supported(call) if callable(supported) else supported:
                return target
        return DEFAULT


def _within_compiler_functions(root: Function) -> set[int]:
    """The functions for compilers inside ``root``, and their expressions and variables, by ``id``."""
    found: set[int] = set()
    for node in post_order(root):
        if isinstance(node, Function) and node is not root and is_for_compiler(node):
            found.update(id(inner) for inner in post_order(node))
    return found
