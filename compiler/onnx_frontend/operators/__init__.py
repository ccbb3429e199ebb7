"""Converters of ONNX operators, one file per family.

Importing this package declares every converter: each file of the folder is imported.
"""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
