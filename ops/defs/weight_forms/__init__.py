"""Operators on weights in the forms of special kernels: packed, in tiles, transformed by Winograd's algorithm, in bits.

Each is a composition of operators on plain weights, or makes the form.
"""
