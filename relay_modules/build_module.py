"""``relay.build_module``: executors, the graph library, and functions with bound parameters."""

from __future__ import annotations

from . import build, create_executor, optimize
from .compiler.executors.bind_params import bind_params_by_name
from .compiler.executors.graph_module import GraphExecutorFactory

__all__ = ["GraphExecutorFactory", "bind_params_by_name", "build", "create_executor", "optimize"]
