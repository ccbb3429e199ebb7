"""The names of ``relay.analysis``."""

from __future__ import annotations

from typing import Any

from ...ops.core.similar_names import did_you_mean
from .variables import Feature, all_vars, bound_vars, detect_feature, free_vars, post_order_visit, well_formed

__all__ = ["Feature", "all_vars", "bound_vars", "detect_feature", "free_vars", "post_order_visit", "well_formed"]


def __getattr__(name: str) -> Any:
    """Raises AttributeError that suggests near names."""
    raise AttributeError(f"there is no relay.analysis.{name}{did_you_mean(name, __all__)}; there are {', '.join(__all__)}")
