"""Shape functions: random numbers from keys."""
