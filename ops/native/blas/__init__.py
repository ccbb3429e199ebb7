"""BLAS: discovery, calls, threads, matrix products."""
