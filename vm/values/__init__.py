"""Values of programs in Python."""
