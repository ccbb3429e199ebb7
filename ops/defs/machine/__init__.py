"""Operators that the compiler inserts: the machine's instructions."""
