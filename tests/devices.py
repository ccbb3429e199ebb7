"""On which devices the tests run, in one place: ``cpu``, ``sim`` and ``cuda``, unless ``RELAYVM_TEST_DEVICES`` lists others.

Without a GPU ``cuda`` is the emulated one, where it can be built (see ``conftest``).

``pytest --device cuda`` adds one for a run (see ``conftest``).  A test of what holds on every device takes it from DEVICES; a
test of what crosses between the host and a device of its own from TARGETS; a test of how ``sim`` itself works names ``sim``.
"""

from __future__ import annotations

import os

#: The environment variable: names of devices with commas between them.
VARIABLE = "RELAYVM_TEST_DEVICES"
HOST = "cpu"
#: Every device that is tested.
DEVICES: tuple[str, ...] = tuple(filter(None, os.environ.get(VARIABLE, f"{HOST},sim").split(",")))
#: The devices that have their own memory.
TARGETS: tuple[str, ...] = tuple(d for d in DEVICES if d != HOST)
