"""Shape functions: operators that take elements between positions: resizing, grids, regions."""
