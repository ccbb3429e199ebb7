"""Tools that the parts ``executables`` and ``crafted`` share: guarded memory, files as ``Pieces``, observed runs."""
