"""Convolution of groups of a few channels."""
