"""The names of ``relay.testing``."""

from __future__ import annotations

from typing import Any

from .compiler.testing import dcgan as dcgan
from .compiler.testing import layers as layers
from .compiler.testing import lstm as lstm
from .compiler.testing import mlp as mlp
from .compiler.testing import mobilenet as mobilenet
from .compiler.testing import resnet as resnet
from .compiler.testing.single_pass import run_infer_type, run_opt_pass
from .compiler.testing.workload import create_workload, random_weights
from .compiler.transform.registered.op_attributes import TempOpAttr
from .ops.core.similar_names import did_you_mean

__all__ = [
    "TempOpAttr", "create_workload", "dcgan", "layers", "lstm", "mlp", "mobilenet", "random_weights", "resnet", "run_infer_type",
    "run_opt_pass",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Raises AttributeError that suggests near names."""
    raise AttributeError(f"there is no relay.testing.{name}{did_you_mean(name, __all__)}; there are {', '.join(__all__)}")
