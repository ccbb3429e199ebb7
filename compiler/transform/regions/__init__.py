"""Regions of calls for external compilers: marks, regions, functions of their own."""
