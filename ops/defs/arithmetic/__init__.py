"""Elementwise operators, with broadcasting, and the creation of tensors."""
