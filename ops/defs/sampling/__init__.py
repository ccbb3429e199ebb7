"""Operators that take elements between positions: resizing, grids, regions."""
