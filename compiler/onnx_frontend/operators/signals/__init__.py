"""Operators on signals: discrete Fourier transforms, filters."""
