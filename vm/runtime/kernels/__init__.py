"""Kernels of an executable: addresses, fallbacks, compilation side by side."""
