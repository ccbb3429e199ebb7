"""The names of ``relay.analysis``."""

from __future__ import annotations

from typing import Any

from .compiler.analysis.call_graph import CallGraph
from .compiler.analysis.extraction import extract_intermediate_expr as extract_intermdeiate_expr
from .compiler.analysis.fake_quantization import list_fake_quantized_op_freqs
from .compiler.analysis.kinds import check_kind
from .compiler.analysis.match_coverage import unmatched_cases
from .compiler.analysis.measures import (
    all_dtypes,
    check_basic_block_normal_form,
    check_constant,
    count_layers,
    extract_fused_functions,
    get_total_mac_number,
    list_op_freqs,
)
from .compiler.analysis.type_variables import all_type_vars, bound_type_vars, free_type_vars
from .compiler.analysis.variables import Feature, all_vars, bound_vars, detect_feature, free_vars, post_order_visit, well_formed
from .compiler.transform.fc_transpose import search_fc_transpose
from .ops.core.similar_names import did_you_mean

__all__ = [
    "CallGraph", "Feature", "all_dtypes", "all_type_vars", "all_vars", "bound_type_vars", "bound_vars",
    "check_basic_block_normal_form", "check_constant", "check_kind", "count_layers", "detect_feature",
    "extract_fake_quantized_ops", "extract_fused_functions", "extract_intermdeiate_expr", "free_type_vars", "free_vars",
    "get_total_mac_number", "list_fake_quantized_op_freqs", "list_op_freqs", "post_order_visit",
    "search_fc_transpose", "unmatched_cases", "well_formed",
]  # fmt: skip

#: Relay's other name of ``list_fake_quantized_op_freqs``.
extract_fake_quantized_ops = list_fake_quantized_op_freqs


#: Names of Relay's without a counterpart, each with the reason and the alternative.
_ABSENT = dict.fromkeys(
    ("AnnotatedRegionSet", "get_calibration_data"),
    'there are no external code generators; create_executor("debug") runs parts of a program',
)


def __getattr__(name: str) -> Any:
    """Raises AttributeError with the reason, or with near names."""
    if name in _ABSENT:
        raise AttributeError(f"there is no relay.analysis.{name}: {_ABSENT[name]}")
    raise AttributeError(f"there is no relay.analysis.{name}{did_you_mean(name, __all__)}; there are {', '.join(__all__)}")
