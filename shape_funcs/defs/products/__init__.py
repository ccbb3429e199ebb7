"""Shape functions: matrix products, attention, recurrent layers."""
