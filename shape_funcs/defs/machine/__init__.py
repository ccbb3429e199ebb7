"""Shape functions of operators around the machine."""
