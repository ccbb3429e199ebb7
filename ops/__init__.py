"""Layer 1: what the operators are: types, declarations, scalar bodies and kernels."""
