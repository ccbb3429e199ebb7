"""Implementations of an operator, their conditions, and the choice among them."""
