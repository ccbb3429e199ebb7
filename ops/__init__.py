"""Layer 1: what the operators are: types, declarations, scalar bodies and kernels.

Importing this package declares every operator.
"""

from . import blocks as blocks
from . import broadcast as broadcast
from . import casting as casting
from . import class_suppression as class_suppression
from . import composite as composite
from . import conv as conv
from . import conv_transpose as conv_transpose
from . import creation as creation
from . import dilation as dilation
from . import dynamic as dynamic
from . import einsum as einsum
from . import elementwise as elementwise
from . import grids as grids
from . import image as image
from . import indexing as indexing
from . import layout as layout
from . import loss as loss
from . import machine as machine
from . import matrix as matrix
from . import nn as nn
from . import norm as norm
from . import pad as pad
from . import pool as pool
from . import rearrange as rearrange
from . import reduce as reduce
from . import roi as roi
from . import scatter as scatter
from . import search as search
from . import sizes as sizes
from . import sort as sort
from . import transform as transform
from . import transforms as transforms
from . import upsampling as upsampling
from . import vision as vision
