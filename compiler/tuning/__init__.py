"""What is measured of a program's operators, and what is remembered of them."""
