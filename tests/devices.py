"""The devices of the tests, in one place: ``cpu``, ``sim`` and ``cuda``, unless ``RELAYVM_TEST_DEVICES`` lists others.

Without a GPU ``cuda`` is the emulated GPU, if it can be built (see ``conftest``).

``pytest --device cuda`` adds a device for a run (see ``conftest``).  A test of a property of every device takes the device from
DEVICES; a test of copies between host and target from TARGETS; a test of ``sim`` itself names ``sim``.
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
