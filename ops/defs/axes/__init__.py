"""Operators along axes: reductions, sorts, searches, Fourier transforms."""
