"""Operators: a folder for each subject, a file for each family.  Importing this package declares every operator."""

from ...declarations.late_registry import import_folder
from ..core.op import REGISTRY

import_folder(__name__, __path__)
REGISTRY.imports = None  # all are declared
