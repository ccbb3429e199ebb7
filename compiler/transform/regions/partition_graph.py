"""``PartitionGraph``: each region as a global function with the attribute ``Compiler``.

    %0 = annotation.compiler_begin(%x, compiler="npu");    ->   def @tvmgen_default_npu_main_0(%npu_0_i0, Compiler="npu", ...) {
    annotation.compiler_end(tanh(%0), compiler="npu")             tanh(%npu_0_i0)
                                                                }
                                                                @tvmgen_default_npu_main_0(%x)

No compiler of that name is needed: the function runs like any other.  The marks of the compiler ``default`` are dropped.
"""

from __future__ import annotations

from ....ops.defs.machine.machine_ops import REGION_MARKS
from ....vm.diagnostics.python_source import here
from ....vm.diagnostics.source import ArgumentError
from ...ir.anf import Names
from ...ir.expr import Call, Constant, Constructor, Expr, Function, GlobalVar, IRModule, Tuple, TupleGetItem, Var, replace
from ...ir.visitor import children, free_vars, with_children
from ..annotations import annotation_of
from ..inlining import graph_of, is_for_compiler
from .annotate_target import DEFAULT, without_marks
from .region_set import AnnotatedRegion, region_set, scopes


def partition_graph(mod: IRModule, mod_name: str, bind_constants: bool) -> IRModule:
    """The module with a function for each region, called ``tvmgen_<mod_name>_<compiler>_<function>_<number>``.

    ``bind_constants``: constants that enter a region become part of its function.
    Raises ArgumentError for a region that cannot be one function: its parts belong to several branches, or a value leaves it and
    comes back.
    """
    made: dict[str, Function] = {}
    names = Names(set(mod.functions))
    kept = {}
    for name, f in mod.functions.items():
        if f.is_primitive or is_for_compiler(f):
            kept[name] = f
        else:
            graph = without_marks(graph_of(f, mod), DEFAULT)
            kept[name] = _Partitioner(graph, f"tvmgen_{mod_name}", name, bind_constants, names, made).function()
    return replace(mod, functions={**kept, **made})


class _Partitioner:
    """The partitioner of one function, a graph."""

    def __init__(
        self, function: Function, prefix: str, name: str, bind_constants: bool, names: Names, made: dict[str, Function]
    ) -> None:
        self.root, self.prefix, self.name, self.bind_constants = function, prefix, name, bind_constants
        self.names, self.made = names, made
        self.regions = [region for region in region_set(function).regions if region.inner]
        self.of_end = {id(end): region for region in self.regions for end in region.rets}
        self.calls: dict[AnnotatedRegion, Expr] = {}
        self.new: dict[int, Expr] = {}

    def function(self) -> Function:
        """The function with calls in the place of the regions."""
        places = scopes(self.root)
        for region in self.regions:
            if len({id(places[id(node)]) for node in region.inner}) > 1:
                raise self._mistake(region, "its parts belong to several branches")
        for node in self._in_order():
            if id(node) in self.of_end:
                self.new[id(node)] = self._result(self.of_end[id(node)], node)
            elif _is_mark(node):
                self.new[id(node)] = self.new[id(children(node)[0])]
            else:
                self.new[id(node)] = with_children(node, tuple(self.new[id(child)] for child in children(node)))
        out = self.new[id(self.root)]
        assert isinstance(out, Function)
        return out

    def _in_order(self) -> list[Expr]:
        """The expressions outside the regions, those that they need first: an end needs all that its region takes."""
        order: list[Expr] = []
        done: dict[int, bool] = {}  # False: begun
        stack: list[Expr] = [self.root]
        while stack:
            node = stack[-1]
            if id(node) in done:
                stack.pop()
                if not done[id(node)]:
                    done[id(node)] = True
                    order.append(node)
                continue
            done[id(node)] = False
            for needed in self._needs(node):
                if done.get(id(needed)) is False:
                    between = next(n for n in reversed(stack) if id(n) in self.of_end and id(n) in done)
                    raise self._mistake(self.of_end[id(between)], "a value leaves it and comes back")
                if id(needed) not in done:
                    stack.append(needed)
        return order

    def _needs(self, node: Expr) -> list[Expr]:
        region = self.of_end.get(id(node))
        return list(reversed(children(node) if region is None else _arguments(region)))

    def _mistake(self, region: AnnotatedRegion, why: str) -> ArgumentError:
        message = f"PartitionGraph: a region of {region.target} in @{self.name} cannot be one function: {why}"
        help = "relay.transform.MergeCompilerRegions() merges the regions that can be one"
        return ArgumentError(message, region.inner[0].span or here(), help=help)

    def _result(self, region: AnnotatedRegion, end: Expr) -> Expr:
        results = _results(region)
        if region not in self.calls:
            self.calls[region] = self._call(region, results)
        call = self.calls[region]
        if len(results) == 1:
            return call
        position = next(k for k, value in enumerate(results) if value is children(end)[0])
        return TupleGetItem(call, position, span=end.span, ty=end.ty)

    def _call(self, region: AnnotatedRegion, results: list[Expr]) -> Expr:
        inside: dict[int, Expr] = {}
        params: list[Var] = []
        given: list[Expr] = []
        for value in _arguments(region):
            if isinstance(value, Constant) and self.bind_constants:
                inside[id(value)] = value
                continue
            param = f"{region.target}_{len(self.made)}_i{len(params)}"
            params.append(Var(param, None if value.ty is None else annotation_of(value.ty), span=value.span, ty=value.ty))
            inside[id(value)] = params[-1]
            given.append(self.new[id(value)])
        for begin in region.args:
            inside[id(begin)] = inside[id(children(begin)[0])]
        for node in region.inner:
            inside[id(node)] = with_children(node, tuple(inside.get(id(child), child) for child in children(node)))
        out = [inside[id(value)] for value in results]
        body = out[0] if len(out) == 1 else Tuple(tuple(out), span=out[0].span)
        name = self.names(f"{self.prefix}_{region.target}_{self.name}_{len(self.made)}")
        attrs = {"Primitive": 1, "Compiler": region.target, "Inline": 1, "global_symbol": name}
        self.made[name] = Function(tuple(params), body, None, attrs, span=region.inner[0].span)
        return Call(GlobalVar(name, span=body.span), tuple(given), span=region.inner[-1].span)


def _results(region: AnnotatedRegion) -> list[Expr]:
    """The values that leave a region, each once."""
    return list({id(children(end)[0]): children(end)[0] for end in region.rets}.values())


def _arguments(region: AnnotatedRegion) -> list[Expr]:
    """The values that enter a region, each once: at its begins, and without a mark."""
    within = {id(node) for node in region.nodes}
    entering = [value for begin in region.args for value in children(begin)]
    entering += [c for node in region.inner for c in children(node) if id(c) not in within and not _is_closed(c)]
    return list({id(value): value for value in entering}.values())


def _is_closed(value: Expr) -> bool:
    """Whether the value is the same everywhere: a constant, a name, a function without free variables."""
    return isinstance(value, (Constant, GlobalVar, Constructor)) or (isinstance(value, Function) and not free_vars(value))


def _is_mark(node: Expr) -> bool:
    return isinstance(node, Call) and node.op in REGION_MARKS
