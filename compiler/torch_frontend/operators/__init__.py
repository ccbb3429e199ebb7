"""Converters of torch's operators, a file for each family."""

from . import (
    arithmetic as arithmetic,
    comparisons as comparisons,
    creation as creation,
    elementwise as elementwise,
    indexing as indexing,
    movement as movement,
    norms as norms,
    products as products,
    recurrences as recurrences,
    reductions as reductions,
    run_time_sizes as run_time_sizes,
    vision as vision,
    windows as windows,
)
