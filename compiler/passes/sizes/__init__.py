"""Passes on sizes: static forms of operators, sizes of earlier values, dispatch on buckets of sizes."""
