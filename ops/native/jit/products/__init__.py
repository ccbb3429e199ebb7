"""Generators of machine code of matrix products, as twins of Python functions."""
