"""Every recipe: importing this module declares them."""

from __future__ import annotations

from . import anchors as anchors
from . import arranging as arranging
from . import elements as elements
from . import gradients as gradients
from . import images as images
from . import moving as moving
from . import networks as networks
from . import norms as norms
from . import picking as picking
from . import quantised as quantised
from . import random_numbers as random_numbers
from . import recurrences as recurrences
from . import signals as signals
from . import sparse as sparse
from . import weights as weights
from . import writing as writing
from .recipe import RECIPES as RECIPES
