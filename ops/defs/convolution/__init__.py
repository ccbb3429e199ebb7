"""Convolutions, pooling and other operators on windows."""
