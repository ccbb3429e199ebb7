"""Operators that are compositions of other operators."""
