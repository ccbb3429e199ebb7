"""Shape functions: elementwise operators, with broadcasting, and the creation of tensors."""
