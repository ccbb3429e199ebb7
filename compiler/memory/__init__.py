"""Storage planning of a function: liveness, views, in-place reuse, coalescing, arenas."""
