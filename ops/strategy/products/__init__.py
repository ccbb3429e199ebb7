"""Implementations of matrix products: when each pays."""
