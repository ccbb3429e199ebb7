"""Data-dependence flags of Relay's last version that are stricter than ours, for ``data_dependence=relay``.

Relay's last version had a flag per input, but most ``dyn.`` operators kept the older single flag, which holds for every input.
An operator that is missing here has our flags.  (Relay also flagged the static ``broadcast_to``.  The flag mattered only for a
shape attribute with unknown sizes; our attribute has known sizes only.)
"""

from __future__ import annotations

#: Per operator and input, whether Relay copied the values to the host.
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
    "sparse_fill_empty_rows": (True, True, True, True),
}
