"""Sparse matrices and tensors."""
