"""Shape functions: sparse matrices and tensors."""
