"""Converters of operators with a state that each step changes."""
