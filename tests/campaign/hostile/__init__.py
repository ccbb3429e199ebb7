"""Tools that the parts ``executables`` and ``crafted`` share: guarded memory, files in pieces, runs that are looked at."""
