"""Means of windows of neighbouring columns: a row of results in tiles of vector registers, with sums in float64.

The rows of a window are added first, each column once, then the columns of the window.  A tile has as many results as a register
has float64, twice.  Its columns are parted by their place in a step between windows, as in ``tiles_of_rows``.
"""
