"""The public names and their modules: for type checkers, and for ``__init__``, which imports each name at its first use."""

from sys import setrecursionlimit as setrecursionlimit
from typing import Any as _AnyValue

from . import (
    adt,
    analysis,
    backend,
    build_module,
    custom_op,
    data_dep_optimization,
    dataflow_pattern,
    expr,
    expr_functor,
    frontend,
    function,
    generation,
    loops,
    onnxruntime,
    op,
    param_dict,
    prelude,
    scope_builder,
    serving,
    testing,
    transform,
    ty,
    type_functor,
    vm,
)
from . import (
    cluster as ray,
)
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
from .compiler.builder.build import Any, const, scalar_type, var
from .compiler.builder.constructors import TupleWrapper
from .compiler.builder.operator_types import *  # noqa: F403  operators, which this file is generated for
from .compiler.builder.prelude import Prelude
from .compiler.builder.registration import register_op, register_shape_func, restore_shape_func, unregister_op
from .compiler.builder.scope_builder import ScopeBuilder
from .compiler.builder.spans import SequentialSpan, SourceName, Span
from .compiler.comparison.run_comparison import Comparison, compare
from .compiler.compile import compile
from .compiler.executors.create_executor import create_executor
from .compiler.executors.graph_module import build
from .compiler.executors.vm_compiler import optimize
from .compiler.ir.expr import Call, Constant, Expr, Function, GlobalVar, If, IRModule, Let, Tuple, TupleGetItem, Var
from .compiler.ir.match_expr import Pattern
from .compiler.ir.structural_equal import structural_equal, structural_hash
from .compiler.shown_program import show
from .compiler.text.parser import fromtext, parse, parse_expr
from .compiler.text.printer import astext
from .compiler.text.printer import pretty_print as pretty_print
from .compiler.transform.declared.rewriting_passes import span_check as SpanCheck
from .compiler.transform.pass_context import PassContext as build_config
from .ops.core.adt_types import TypeKind
from .ops.core.tensor_types import FuncType, TensorType, TupleType
from .ops.core.tensor_types import Type as Type
from .shape_funcs.symbolic.registry import ShapeError
from .vm.api.executable import Executable
from .vm.api.machine import VirtualMachine
from .vm.bytecode.named_arrays import load_param_dict, save_param_dict
from .vm.devices.device_names import cpu, cuda
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
from .vm.thread_count import get_num_threads, set_num_threads
from .vm.thread_count import get_num_threads as num_threads
from .vm.values.adt import ADT
from .vm.values.tensor import Tensor

__version__: str

__all__ = [
    "ADT", "Any", "ArgumentError", "CacheMismatch", "Call", "Clause", "Comparison", "ConfigError", "Constant", "Constructor",
    "Diagnostic", "Executable", "ExecutableFormatError", "Expr", "ExprFunctor", "ExprMutator", "ExprVisitor", "FileError",
    "FuncType", "Function", "GlobalTypeVar", "GlobalVar", "IRModule", "If", "IncompleteType", "InputError", "Let", "Match",
    "ModelError", "ParseError", "Pattern", "PatternConstructor", "PatternTuple", "PatternVar", "PatternWildcard", "Prelude",
    "Profile", "RefCreate", "RefRead", "RefType", "RefWrite", "RelayError", "ScopeBuilder", "SequentialSpan", "ShapeError",
    "ShapeVar", "SourceName", "Span", "SpanCheck", "Tensor", "TensorType", "Tuple", "TupleGetItem", "TupleType",
    "TupleWrapper", "TypeCall", "TypeCheckError", "TypeData", "TypeFunctor", "TypeKind", "TypeMutator", "TypeVar",
    "TypeVisitor", "VMError", "Var", "VirtualMachine", "adt", "analysis", "assert_structural_equal", "astext", "backend",
    "bind", "build", "build_config", "build_module", "compare", "compile", "const", "cpu", "create_executor", "cuda", "custom_op",
    "data_dep_optimization", "dataflow_pattern", "expr", "expr_functor", "fromtext", "frontend", "function", "generation",
    "get_num_threads", "load_param_dict", "loops", "num_threads", "onnxruntime", "op", "optimize", "param_dict", "parse",
    "parse_expr", "prelude",
    "ray", "register_op", "register_shape_func", "restore_shape_func", "save_param_dict", "scalar_type", "scope_builder",
    "serving", "set_num_threads", "show", "structural_equal", "structural_hash", "testing", "transform", "ty", "type_functor",
    "unregister_op", "var", "vm",
]  # fmt: skip

def __getattr__(name: str) -> _AnyValue: ...  # operators
