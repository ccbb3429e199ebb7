"""Products with a matrix of 2, 4 or 8 bits a number, which is read as it is stored."""
