"""Shape functions: convolutions, pooling and other operators on windows."""
