"""Converters of torch's operators, a file for each family."""

from . import (
    arithmetic as arithmetic,
)
from . import (
    comparisons as comparisons,
)
from . import (
    creation as creation,
)
from . import (
    elementwise as elementwise,
)
from . import (
    indexing as indexing,
)
from . import (
    movement as movement,
)
from . import (
    norms as norms,
)
from . import (
    products as products,
)
from . import (
    recurrences as recurrences,
)
from . import (
    reductions as reductions,
)
from . import (
    run_time_sizes as run_time_sizes,
)
from . import (
    vision as vision,
)
from . import (
    windows as windows,
)
