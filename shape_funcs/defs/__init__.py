"""Shape functions, one file per operator family; ``ops.defs`` has the operators under the same names."""
