"""Comparison of a model with another runtime, or with other settings, value by value: the first node whose result differs."""
