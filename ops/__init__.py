"""Layer 1: what the operators are: types, declarations, scalar bodies and kernels.

Importing this package declares every operator.
"""

from . import broadcast as broadcast
from . import conv as conv
from . import creation as creation
from . import dynamic as dynamic
from . import elementwise as elementwise
from . import indexing as indexing
from . import machine as machine
from . import nn as nn
from . import pool as pool
from . import reduce as reduce
from . import roi as roi
from . import search as search
from . import sort as sort
from . import transform as transform
from . import vision as vision
