"""Operators, one file per family."""
