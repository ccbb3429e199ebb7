"""Symbolic dimensions, the programs that compute them, and the registry of shape functions."""
