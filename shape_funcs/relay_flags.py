"""The data-dependence flags of Relay's last version, where they ask for more than ours: what ``data_dependence=relay`` copies.

Relay's flags were per input in the end, but most ``dyn.`` operators kept the one flag of old, which holds for every input.
An operator that is not here has our flags.  (Relay flagged the static ``broadcast_to`` too, which mattered only for a shape
attribute with unknown sizes; ours has none.)
"""

from __future__ import annotations

#: Per operator: for each input, did Relay copy its values to the host?
RELAY_FLAGS: dict[str, tuple[bool, ...]] = {
    "argwhere": (True,),
    "dyn.broadcast_to": (True, True),
    "dyn.expand_dims": (True, True),
    "dyn.full": (True, True),
    "dyn.image.resize2d": (True, True, True),
    "dyn.nn.pad": (True, True, True),
    "dyn.nn.upsampling": (True, True, True),
    "dyn.nn.upsampling3d": (True, True, True, True),
    "dyn.one_hot": (True, True, True, True),
    "dyn.sparse_to_dense": (True, True, True, True),
    "dyn.tile": (True, True),
    "dyn.topk": (True, True),
}
