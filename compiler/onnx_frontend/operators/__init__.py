"""Converters of ONNX operators, one file per family.

Importing this package declares every converter: each file of the folder and of its folders is imported.
"""

from importlib import import_module
from pkgutil import walk_packages

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)
