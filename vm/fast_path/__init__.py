"""Calls of the machine in machine code: arguments, results, the guard of the native state."""
