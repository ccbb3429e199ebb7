"""Passes on the states of loops that grow: caches of attention."""
