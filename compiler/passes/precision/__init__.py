"""Passes on the precision of tensors."""
