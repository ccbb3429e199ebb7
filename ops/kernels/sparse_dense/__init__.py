"""Products of a dense matrix and a matrix whose rows list their blocks that are not 0."""
