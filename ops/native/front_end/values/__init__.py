"""Types and values of the native language: scalars, static values, forms of machine code."""
