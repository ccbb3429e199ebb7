"""The names of ``relay.testing``."""

from __future__ import annotations

from typing import Any

from .compiler.builder.import_paths import importable
from .compiler.ir.op_attributes import TempOpAttr
from .compiler.testing import dcgan as dcgan
from .compiler.testing import densenet as densenet
from .compiler.testing import dqn as dqn
from .compiler.testing import inception_v3 as inception_v3
from .compiler.testing import layers as layers
from .compiler.testing import lstm as lstm
from .compiler.testing import mlp as mlp
from .compiler.testing import mobilenet as mobilenet
from .compiler.testing import nat as nat
from .compiler.testing import resnet as resnet
from .compiler.testing import squeezenet as squeezenet
from .compiler.testing import synthetic as synthetic
from .compiler.testing.nat import add_nat_definitions, count, make_nat_expr, make_nat_value
from .compiler.testing.single_pass import run_infer_type, run_opt_pass
from .compiler.testing.workload import create_workload, random_weights
from .ops.core.similar_names import did_you_mean

__all__ = [
    "TempOpAttr", "add_nat_definitions", "count", "create_workload", "dcgan", "densenet", "dqn", "inception_v3", "layers", "lstm",
    "make_nat_expr", "make_nat_value", "mlp", "mobilenet", "nat", "random_weights", "resnet", "run_infer_type", "run_opt_pass",
    "squeezenet", "synthetic",
]  # fmt: skip
importable(__name__, {network.__name__.rpartition(".")[2]: network for network in (
    dcgan, densenet, dqn, inception_v3, layers, lstm, mlp, mobilenet, nat, resnet, squeezenet, synthetic,
)})  # fmt: skip


def __getattr__(name: str) -> Any:
    """Raises AttributeError that suggests near names."""
    raise AttributeError(f"there is no relay.testing.{name}{did_you_mean(name, __all__)}; there are {', '.join(__all__)}")
