"""Converters of torch's operators, one file per family.  Importing this package declares every converter."""

from ....declarations.late_registry import import_folder

import_folder(__name__, __path__)
