"""Shape functions: a folder for each subject, a file for each family, under the names of ``ops.defs``.

Importing this package registers the shape function of every operator.
"""

from ...declarations.late_registry import import_folder
from ..symbolic.registry import SHAPE_FUNCS

import_folder(__name__, __path__)
SHAPE_FUNCS.imports = None  # all are registered
