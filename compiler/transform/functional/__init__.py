"""Passes of functional programs: continuation-passing style, defunctionalization, partial evaluation."""
