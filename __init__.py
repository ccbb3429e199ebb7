"""relayvm: compile and run tensor programs whose shapes are known only at run time.

    import relayvm as relay

    mod = relay.parse(text)                      # or build one: relay.var, relay.Function, relay.nn.dense, ...
    exe = relay.compile(mod, target="cpu")       # an Executable: data, saved and loaded as one file
    vm = relay.VirtualMachine(exe)
    result = vm.run(x, y)                        # numpy or DLPack in, relay.Tensor out

Every operator is a function here, at Relay's path: ``relay.add``, ``relay.nn.dense``, ``relay.vision.non_max_suppression``.
"""

from __future__ import annotations

from functools import partial as _partial
from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _AnyValue

from . import vm
from .compiler.builder import compositions as _compositions  # noqa: F401 - adds its functions to the operators
from .compiler.builder.build import Any, const, scalar_type, var
from .compiler.builder.ir_methods import bind as _bind_ir_methods
from .compiler.builder.operator_functions import operators as _operators
from .compiler.builder.registration import register_op, register_shape_func, restore_shape_func, unregister_op
from .compiler.builder.scope_builder import ScopeBuilder
from .compiler.comparison.run_comparison import Comparison, compare
from .compiler.compile import compile
from .compiler.ir.expr import Expr
from .compiler.ir.structural_equal import structural_equal, structural_hash
from .compiler.text.parser import fromtext, parse, parse_expr
from .compiler.text.printer import astext
from .shape_funcs.symbolic.registry import ShapeError
from .vm.api.executable import Executable
from .vm.api.machine import VirtualMachine
from .vm.api.pickling import register as _register_pickling
from .vm.api.tensor import Tensor
from .vm.api.thread_count import num_threads, set_num_threads
from .vm.diagnostics.source import (
    ArgumentError,
    CacheMismatch,
    ConfigError,
    Diagnostic,
    ExecutableFormatError,
    FileError,
    InputError,
    ModelError,
    ParseError,
    RelayError,
    TypeCheckError,
    VMError,
)
from .vm.report.profile_report import Profile

if TYPE_CHECKING:
    from . import analysis, frontend, testing, transform
    from .compiler.analysis.expr_functor import ExprFunctor, ExprMutator, ExprVisitor
    from .compiler.analysis.structural_difference import assert_structural_equal
    from .compiler.analysis.substitution import bind
    from .compiler.analysis.type_functor import TypeFunctor, TypeMutator, TypeVisitor
    from .compiler.builder.adt_constructors import (
        Clause,
        Constructor,
        GlobalTypeVar,
        IncompleteType,
        Match,
        PatternConstructor,
        PatternTuple,
        PatternVar,
        PatternWildcard,
        RefCreate,
        RefRead,
        RefType,
        RefWrite,
        ShapeVar,
        TypeCall,
        TypeData,
        TypeVar,
    )
    from .compiler.builder.constructors import TupleWrapper
    from .compiler.builder.prelude import Prelude
    from .compiler.builder.spans import SequentialSpan, SourceName, Span
    from .compiler.executors.create_executor import create_executor
    from .compiler.executors.graph_module import build
    from .compiler.executors.vm_compiler import optimize
    from .compiler.ir.expr import Call, Constant, Function, GlobalVar, If, IRModule, Let, Tuple, TupleGetItem, Var
    from .compiler.ir.match_expr import Pattern
    from .compiler.transform.rewriting_passes import span_check as SpanCheck
    from .ops.core.adt_types import TypeKind
    from .ops.core.tensor_types import FuncType, TensorType, TupleType
    from .vm.bytecode.named_arrays import load_param_dict, save_param_dict
    from .vm.devices.device_names import cpu, cuda
    from .vm.values.adt import ADT
else:  # these take what people write: lists, numbers, names with or without @
    from .compiler.builder.constructors import (
        Call,
        Constant,
        Function,
        FuncType,
        GlobalVar,
        If,
        IRModule,
        Let,
        TensorType,
        Tuple,
        TupleGetItem,
        TupleType,
        TupleWrapper,
        Var,
    )

__version__ = "0.1.0"

_bind_ir_methods()
_register_pickling()

__all__ = [
    "ADT", "Any", "ArgumentError", "CacheMismatch", "Call", "Clause", "Comparison", "ConfigError", "Constant", "Constructor",
    "Diagnostic", "Executable", "ExecutableFormatError", "Expr", "ExprFunctor", "ExprMutator", "ExprVisitor", "FileError",
    "FuncType", "Function", "GlobalTypeVar", "GlobalVar", "IRModule", "If", "IncompleteType", "InputError", "Let", "Match",
    "ModelError", "ParseError", "Pattern", "PatternConstructor", "PatternTuple", "PatternVar", "PatternWildcard", "Prelude",
    "Profile", "RefCreate", "RefRead", "RefType", "RefWrite", "RelayError", "ScopeBuilder", "SequentialSpan", "ShapeError",
    "ShapeVar", "SourceName", "Span", "SpanCheck", "Tensor", "TensorType", "Tuple", "TupleGetItem", "TupleType", "TupleWrapper",
    "TypeCall", "TypeCheckError", "TypeData", "TypeFunctor", "TypeKind", "TypeMutator", "TypeVar", "TypeVisitor", "VMError",
    "Var", "VirtualMachine", "adt", "analysis", "assert_structural_equal", "astext", "backend", "bind", "build", "compare",
    "compile", "const", "cpu", "create_executor", "cuda", "data_dep_optimization", "dataflow_pattern", "expr", "expr_functor",
    "fromtext", "frontend", "function", "load_param_dict", "loops", "num_threads", "op", "optimize", "param_dict", "parse",
    "parse_expr", "prelude", "register_op", "register_shape_func", "restore_shape_func", "save_param_dict", "scalar_type",
    "scope_builder", "set_num_threads", "structural_equal", "structural_hash", "testing", "transform", "ty", "type_functor",
    "unregister_op", "var", "vm",
]  # fmt: skip


#: Names whose modules are imported at their first use, each with its module and its name there ("": the module itself).
_LATE = {
    **{
        name: (".compiler.builder.adt_constructors", name)
        for name in (
            "Clause",
            "Constructor",
            "GlobalTypeVar",
            "IncompleteType",
            "Match",
            "PatternConstructor",
            "PatternTuple",
            "PatternVar",
            "PatternWildcard",
            "RefCreate",
            "RefRead",
            "RefType",
            "RefWrite",
            "ShapeVar",
            "TypeCall",
            "TypeData",
            "TypeVar",
        )
    },
    "ADT": (".vm.values.adt", "ADT"),
    "ExprFunctor": (".compiler.analysis.expr_functor", "ExprFunctor"),
    "ExprMutator": (".compiler.analysis.expr_functor", "ExprMutator"),
    "ExprVisitor": (".compiler.analysis.expr_functor", "ExprVisitor"),
    "adt": (".adt", ""),
    "analysis": (".analysis", ""),
    "assert_structural_equal": (".compiler.analysis.structural_difference", "assert_structural_equal"),
    "backend": (".backend", ""),
    "bind": (".compiler.analysis.substitution", "bind"),
    "build": (".compiler.executors.graph_module", "build"),
    "cpu": (".vm.devices.device_names", "cpu"),
    "create_executor": (".compiler.executors.create_executor", "create_executor"),
    "cuda": (".vm.devices.device_names", "cuda"),
    "data_dep_optimization": (".data_dep_optimization", ""),
    "dataflow_pattern": (".dataflow_pattern", ""),
    "expr": (".expr", ""),
    "expr_functor": (".expr_functor", ""),
    "frontend": (".frontend", ""),
    "function": (".function", ""),
    "load_param_dict": (".vm.bytecode.named_arrays", "load_param_dict"),
    "loops": (".loops", ""),
    "op": (".op", ""),
    "optimize": (".compiler.executors.vm_compiler", "optimize"),
    "param_dict": (".param_dict", ""),
    "save_param_dict": (".vm.bytecode.named_arrays", "save_param_dict"),
    "scope_builder": (".scope_builder", ""),
    "testing": (".testing", ""),
    "transform": (".transform", ""),
    "ty": (".ty", ""),
    "Pattern": (".compiler.ir.match_expr", "Pattern"),
    "Prelude": (".compiler.builder.prelude", "Prelude"),
    "SequentialSpan": (".compiler.builder.spans", "SequentialSpan"),
    "SourceName": (".compiler.builder.spans", "SourceName"),
    "Span": (".compiler.builder.spans", "Span"),
    "SpanCheck": (".compiler.transform.rewriting_passes", "span_check"),
    "TypeFunctor": (".compiler.analysis.type_functor", "TypeFunctor"),
    "TypeKind": (".ops.core.adt_types", "TypeKind"),
    "TypeMutator": (".compiler.analysis.type_functor", "TypeMutator"),
    "TypeVisitor": (".compiler.analysis.type_functor", "TypeVisitor"),
    "type_functor": (".type_functor", ""),
    "Type": (".ops.core.tensor_types", "Type"),
    "build_config": (".compiler.transform.pass_context", "PassContext"),
    "prelude": (".prelude", ""),
    "pretty_print": (".compiler.text.printer", "pretty_print"),
    "setrecursionlimit": ("sys", "setrecursionlimit"),
}
#: The names of ``relay.vm``, likewise.
_VM_LATE = {
    "Executable": (".vm.api.executable", "Executable"),
    "VMCompiler": (".compiler.executors.vm_compiler", "VMCompiler"),
    "VMExecutor": (".compiler.executors.create_executor", "VMExecutor"),
    "VirtualMachine": (".vm.api.machine", "VirtualMachine"),
    "compile": (".compiler.executors.vm_compiler", "compile"),
}


def _imported(module: str, attribute: str) -> _AnyValue:
    found = _import_module(module, __name__)
    return getattr(found, attribute) if attribute else found


vm.PUBLIC.update({_name: _partial(_imported, *_place) for _name, _place in _VM_LATE.items()})


def __getattr__(name: str) -> _AnyValue:
    """The operator, or group of operators, called ``name``.  Raises AttributeError that suggests near names."""
    if name in _LATE:
        globals()[name] = _imported(*_LATE[name])
        return globals()[name]
    return getattr(_operators, name)


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(_operators)})
