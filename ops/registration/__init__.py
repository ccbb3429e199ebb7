"""Operators and shape functions of users."""
