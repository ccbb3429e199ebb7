"""Rows of sparse tensors."""
