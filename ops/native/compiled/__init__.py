"""Compiled functions: object code from the cache or the compiler, linked into the process."""
